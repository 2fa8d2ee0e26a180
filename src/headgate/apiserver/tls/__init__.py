"""The certificates of the embedded API server: a CA of its own and what it signs."""
