"""Kueue-style quota: which workloads may use how much of which flavor, which wait, and which are evicted.

It does no I/O: it receives API objects and returns frozen effects. ``engine.py`` is the entry point for other packages
and ``controller/`` writes the decisions to Workloads and queue statuses. ``jobs/`` manages jobs and their pods.
"""
