"""Pending workloads: their order, what blocks them, and when they are tried again."""
