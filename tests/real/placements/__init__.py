"""Random clusters for kube-scheduler and for Headgate's scheduling cycle.

`cases.py` generates them, `kube_scheduler_run.py` lets kube-scheduler schedule them, `comparison.py` compares.
"""
