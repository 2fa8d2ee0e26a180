"""Waiting: who waits, why, and what may end it; one structure for every kind of wait.

``lot.py`` is the parking lot, ``waker.py`` what wakes, ``line.py`` an order with ranks, ``heap.py`` an order with
deadlines. Nothing here knows pods, queues or quota: scheduling, capacity and quota park their own units in lots of
their own, and decide themselves what happens to those who wake up.
"""
