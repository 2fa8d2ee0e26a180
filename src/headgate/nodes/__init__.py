"""Hollow kubelets: simulated nodes that report Ready and run pods without containers.

``hollow_kubelets.py`` is a pure state machine; ``nodes/io/kubelet_runner.py`` performs its writes. ``behaviour.py`` has
the annotations that control a node or a pod.
"""
