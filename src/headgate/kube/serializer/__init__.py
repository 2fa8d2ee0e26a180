"""Decoders and encoders for JSON and YAML, with limits on size, depth and the number of values."""
