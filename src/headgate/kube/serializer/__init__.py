"""JSON and YAML text to plain values and back, with bounds on size, depth and the number of values."""
