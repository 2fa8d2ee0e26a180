"""Endpoints below an object that are not simply another way to update it.

``status``, ``resize``, ``finalize`` and ``ephemeralcontainers`` are updates under other rules and need no module: the
kind's strategy has those rules. Here are the ones that take or give another kind: Binding, Eviction, Scale.
"""
