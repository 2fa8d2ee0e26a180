"""The commands. This is the only package that wires the others together."""
