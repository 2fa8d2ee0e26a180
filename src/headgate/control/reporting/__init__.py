"""Writing down how queues and PodGroups fare."""
