"""Waiting: which units wait, for which reason, and which events wake them; one structure for every kind of wait.

``parking_lot.py`` is the parking lot, ``queueing_hints.py`` the events and hints that wake a unit, ``ranked_list.py``
an order with ranks, ``heap.py`` an order with deadlines. This package knows no pods, queues or quota: ``scheduling``,
``capacity`` and ``quota`` keep their units in parking lots of their own and decide what a woken unit does.
"""
