"""Controllers as pure reconcilers: they decide, and never perform I/O.

A controller (``framework/``) receives watch events, returns the keys to enqueue, and reconciles one key in steps: it
yields API requests and receives their responses. ``runtime/controller_manager.py`` performs the requests. This package
has the workload controllers, the garbage collector and the other controllers that every cluster needs.
"""
