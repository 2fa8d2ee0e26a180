"""Estimates of when a waiting pod, gang or Workload starts: the present state, replayed many times by the engines.

``estimator.py`` is the entry; ``docs/estimates.md`` says what an estimate is based on. Nothing here does I/O.
"""
