"""Built-in admission plugins and the table that enables them."""
