"""The scheduler: which pod is tried next, and which node it gets.

It does no I/O: it receives events and the time, and returns effects. ``queue/`` is the scheduling queue, ``cache/``
holds the nodes and the shapes of pods, ``framework/`` defines plugins and runs the scheduling cycle, ``plugins/`` has
the built-in plugins, ``gates/`` admits pods by queue. ``scheduler.py`` puts them together; ``runtime/scheduler/``
watches, binds and writes.
"""
