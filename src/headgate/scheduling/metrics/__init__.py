"""The scheduler's metrics."""
