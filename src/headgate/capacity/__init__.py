"""Volcano-style queues: how much each queue may use, which pods wait for capacity, and which capacity is promised.

It does no I/O: it receives API objects and returns grants and wait reasons. ``engine.py`` is the entry point for other
packages. ``scheduling/`` places pods on nodes, ``admission/`` adds the queue gate to pods, and ``scheduling/gates/``
removes it.
"""
