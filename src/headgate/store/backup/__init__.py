"""Copies of the data: taken while the server runs, put back, and saved from a damaged file."""
