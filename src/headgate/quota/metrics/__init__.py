"""Metrics of quota under Kueue's names: counted as it happens (``counters.py``) or read on demand (``gauges.py``)."""
