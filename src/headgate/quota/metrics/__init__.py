"""Metrics of quota under Kueue's names: counters of events (``counters.py``), and gauges read on each scrape
(``gauges.py``)."""
