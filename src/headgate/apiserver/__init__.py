"""The embedded Kubernetes API: one pure ``handle(request)``, kinds as rows of a table, and thin shells around them.

Begin with ``messages.py`` and ``handle.py``. The objects themselves, their rules and their texts are in ``kube/``.
"""
