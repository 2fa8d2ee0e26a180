"""Talking to any Kubernetes API server: where it is, how to reach it, and what it tells over time.

A transport (``transport.py``) is HTTP or a call in the same process; an informer (``informer.py``) lists and watches
through it. The embedded server itself is another room, ``apiserver/``, which this one never imports.
"""
