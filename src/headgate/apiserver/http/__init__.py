"""The embedded API server on a socket."""
