"""Which pods are preempted inside a queue and reclaimed between queues."""
