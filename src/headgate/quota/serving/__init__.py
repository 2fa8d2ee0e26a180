"""Quota at work on an API server: a controller that feeds the engine and writes down what it decides.

``controller.py`` hears and orders the writes, ``writing.py`` turns effects of the engine into bodies and Events,
``census.py`` counts for the statuses of queues. Deciding is the engine's (``quota/engine.py``).
"""
