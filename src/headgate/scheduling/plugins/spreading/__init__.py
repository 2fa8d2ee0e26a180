"""How pods are spread over topology domains: rules, counts per domain, and what they mean for nodes.

The plugin that puts the pieces together is ``plugins/pod_topology_spread.py``.
"""
