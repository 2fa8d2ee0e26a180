"""The reads of the commands ``explain``, ``queues`` and ``workloads``: queues, quota or a workload at one revision."""
