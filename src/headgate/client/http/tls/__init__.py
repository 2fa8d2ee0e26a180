"""TLS towards a server."""
