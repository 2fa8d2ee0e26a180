"""Affinity between pods: terms, counts per topology domain, and what they mean for nodes and for pods that wait.

The plugin that puts the pieces together is ``plugins/inter_pod_affinity.py``.
"""
