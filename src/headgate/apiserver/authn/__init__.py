"""Authentication: the user of a request (tokens, client certificates, service accounts)."""
