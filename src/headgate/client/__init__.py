"""Talking to any Kubernetes API server: where it is, how to reach it, and what it tells over time.

``credentials/`` finds out who we are. A transport (``transport.py``) is HTTP or a call in the same process; an informer
(``informer.py``) lists and watches through it, a writer (``writer.py``) writes and knows what became of it
(``outcome.py``), ``events/`` tells people, and ``leases/`` elects the one that may write.
The embedded server itself is another room, ``apiserver/``, which this one never imports.
"""
