"""Headgate's admission: the queue gate for pods, and validation of queues, PodGroups, Kueue's kinds and managed jobs.

Pure: an AdmissionReview and a view of other objects come in, a response comes out. The embedded API server calls the
handlers in its own process (``cli/`` passes it the table of ``steps.py``), a real API server calls them over TLS
(``runtime/webhooks/``). This package counts no capacity; ``capacity/`` does.
"""
