"""Counters and status of ClusterQueues and LocalQueues."""
