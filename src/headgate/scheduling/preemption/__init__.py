"""Preemption: dry runs on nodes, victims, and the deletions that follow."""
