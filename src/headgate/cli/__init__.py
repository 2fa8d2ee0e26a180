"""The commands, and the only room that wires the others together."""
