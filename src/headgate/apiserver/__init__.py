"""The embedded Kubernetes API server: a pure generator ``handle`` for requests, a table of kinds, and I/O in ``io/``.

Read ``apiserver/request/messages.py`` and ``handler.py`` first. ``apimachinery/`` has defaults, validation and
strategies of the kinds; ``kube/`` has the vocabulary.
"""
