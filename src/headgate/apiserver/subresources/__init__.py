"""Subresources: status, scale, binding, eviction, token and the others."""
