"""Defaulting: the values that the API server sets where a client left a field out."""
