"""Drawn clusters for kube-scheduler and for our cycle: `cases.py` draws, `arena.py` plays, `judging.py` compares."""
