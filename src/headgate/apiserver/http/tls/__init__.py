"""TLS of the embedded API server's connections."""
