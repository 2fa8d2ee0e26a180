"""Validation of the kinds of dynamic resource allocation."""
