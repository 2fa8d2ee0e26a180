"""Structural schemas of custom resources: validation, pruning, defaulting, list types."""
