"""Scheduling: which pod is tried next, and where it goes.

``queue.py`` is the scheduling queue, ``events.py`` the words of what happens in a cluster, ``contract.py`` what a
plugin is, ``plugins/`` one module per plugin, ``nodes.py`` the matrix of all nodes, ``shape.py`` what pods ask of
them, ``cycle.py`` what finds a node for a pod. Everything here is pure: events and ``now_s`` come in, decisions come
out; the shell that watches, binds and writes is ``control/scheduler/``.
"""
