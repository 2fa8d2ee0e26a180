"""Pods in Kueue's queues, one by one and in groups: each waits behind a gate until its Workload is admitted."""
