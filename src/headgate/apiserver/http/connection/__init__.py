"""One connection of the embedded API server."""
