"""One connection to a server."""
