"""Queues, quota or one workload as of one revision, read from lists for one command."""
