"""Node conditions, taints by condition, and eviction of pods from nodes that do not report."""
