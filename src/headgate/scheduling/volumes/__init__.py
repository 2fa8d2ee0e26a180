"""Volumes: claims, binding, and the cache that assumes the scheduler's own writes."""
