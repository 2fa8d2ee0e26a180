"""Kueue-style quota: who may use how much of which flavor, who waits for it, and who has to make room.

Pure: what the API shows comes in (``engine.py`` is the door), frozen effects come out. Jobs and their pods are
``jobs/``'s; writing statuses is ``control/``'s.
"""
