"""The scheduler: which pod is tried next, and which node it gets.

Pure: events and ``now_s`` come in, effects come out. ``queue/`` is the scheduling queue, ``cache/`` holds the nodes and
the shapes of pods, ``framework/`` defines plugins and runs the scheduling cycle, ``plugins/`` has the built-in plugins,
``gates/`` admits pods by queue. ``scheduler.py`` puts them together; ``runtime/scheduler/`` watches, binds and writes.
"""
