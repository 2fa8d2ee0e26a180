"""Decodes and encodes objects by their schema."""
