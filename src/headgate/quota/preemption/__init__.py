"""Which admitted workloads are evicted for another one."""
