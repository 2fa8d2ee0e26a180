"""Watches: events of one resource as a stream of lines."""
