"""HTTP transport."""
