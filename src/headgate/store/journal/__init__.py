"""The durable log: what one process writes to the file, and reads from it at start."""
