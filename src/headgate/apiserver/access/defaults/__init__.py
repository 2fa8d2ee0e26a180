"""The roles and bindings that every cluster starts with, as tables, and how they are kept.

``roles.py`` lists the objects; ``reconcile.py`` says what to do with one that is already there. ``cli/bootstrap.py``
writes them through the front door at each start.
"""
