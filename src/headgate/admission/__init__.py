"""What Headgate answers when an API server asks before it writes: gates for pods, rules for queues.

Pure: a request and a way to look at other objects come in, an answer comes out. The embedded server asks in its own
process (``cli/`` hands the table of ``steps.py`` to it), a real one over TLS (``control/webhooks/``). Nothing here
counts capacity; that is ``capacity/``.
"""
