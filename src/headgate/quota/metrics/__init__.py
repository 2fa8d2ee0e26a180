"""What quota measures, under Kueue's names: counted as it happens (``tallies.py``) or read off (``gauges.py``)."""
