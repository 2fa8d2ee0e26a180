"""Defaults: what the API fills into an object that leaves things unsaid. The table is in ``registry.py``."""
