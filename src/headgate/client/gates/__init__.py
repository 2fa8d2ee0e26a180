"""Scheduling gates over the API: which there are (``census.py``), who set them (``setters.py``), and how one is lifted
from a pod (``lifting.py``).

All are pure: generators that yield requests and are sent answers. Whoever runs them sends the requests
(``cli/gates.py``, controllers of one's own).
"""
