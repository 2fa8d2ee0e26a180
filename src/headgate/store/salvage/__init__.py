"""What is left of a damaged file."""
