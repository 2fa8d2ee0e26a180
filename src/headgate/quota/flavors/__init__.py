"""Flavor assignment: which flavors of a queue a workload gets."""
