"""Hollow kubelets: nodes that report Ready and run pods on paper.

The machine is pure (``hollow.py``); ``shell.py`` carries its writes to a server. What an annotation can ask of a node
or a pod is listed in ``wishes.py``.
"""
