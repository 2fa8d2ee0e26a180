"""Owners (objects with an owned kind, such as ReplicaSets) and their dependents: cache, adoption, creation,
deletion."""
