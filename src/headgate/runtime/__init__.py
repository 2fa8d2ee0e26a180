"""Runs the engines: it watches, keeps timers, performs the effects that an engine returns, and returns the responses.

``controller_manager.py`` runs all controllers, ``scheduler/`` runs the scheduler, ``webhooks/`` serves admission
reviews. The engines decide; this package does the I/O.
"""
