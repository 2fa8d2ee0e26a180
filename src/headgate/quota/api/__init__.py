"""Kueue's kinds as values: ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload and their parts."""
