"""Shadow mode: Headgate's engines follow a cluster that another queueing system decides about, and compare decisions.

``controller.py`` receives the watch events; ``quota_shadow.py`` compares with Kueue, ``queue_shadow.py`` with Volcano.
Nothing here writes: the package returns :class:`DecisionComparison` values, which ``tally.py`` counts.
"""
