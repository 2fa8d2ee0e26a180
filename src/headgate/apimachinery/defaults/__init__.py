"""Defaulting: the values that the API server sets for absent fields."""
