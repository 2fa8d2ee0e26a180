"""Volcano-style queues: how much each queue may use, which pods wait for capacity, and which capacity is promised.

Pure: API objects come in, grants and wait reasons come out. ``engine.py`` is the entry point for other packages.
``scheduling/`` places pods on nodes, ``admission/`` adds the queue gate to pods, and ``scheduling/gates/`` removes it.
"""
