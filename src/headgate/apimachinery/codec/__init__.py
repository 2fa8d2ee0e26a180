"""Objects by their schema: what is decoded, what is dropped, and how an object is encoded again."""
