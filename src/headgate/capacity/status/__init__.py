"""Status of queues and PodGroups: counters, conditions, and when they are written."""
