"""Installation on a real cluster: from options to Kubernetes objects, and the ordered steps of an uninstallation.

Pure. ``manifests.py`` lists the objects of an installation; ``rights.py`` has every RBAC rule with the scenario that
needs it; ``applying.py``, ``checking.py`` and ``uninstalling.py`` yield requests that ``cli/commands/`` performs. The
Helm chart is rendered from the same objects (``tools/render_chart.py``).
"""
