"""Bytes of one client, over TLS, within bounds."""
