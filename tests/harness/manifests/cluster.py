"""Manifests of what belongs to the cluster: namespaces, nodes, priority and runtime classes."""

from __future__ import annotations

from harness.manifests.kind import Kind, labelled

CLUSTER_KINDS: tuple[Kind, ...] = (
    Kind(
        "v1",
        "Namespace",
        "namespaces",
        {},
        {**labelled(app="a"), "spec": {"finalizers": ["kubernetes", "example.com/extra"]}},
        {"metadata": {"labels": {"more": "yes"}}},
        namespaced=False,
        has_status=True,
        status={"status": {"phase": "Active", "conditions": [{"type": "Odd", "status": "True"}]}},
    ),
    Kind(
        "v1",
        "Node",
        "nodes",
        {},
        {
            **labelled(app="a"),
            "spec": {
                "podCIDR": "10.9.0.0/24",
                "providerID": "example://i",
                "unschedulable": True,
                "taints": [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}],
            },
            "status": {
                "capacity": {"cpu": "4", "memory": "32768Mi", "pods": 110},
                "allocatable": {"cpu": 3.5, "memory": "32Gi"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "R"}],
                "addresses": [{"type": "InternalIP", "address": "192.0.2.3"}],
                "nodeInfo": {"kubeletVersion": "v1.35.8", "osImage": "Odd"},
            },
        },
        {"spec": {"unschedulable": None, "taints": []}},
        namespaced=False,
        has_status=True,
        status={"status": {"capacity": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "False"}]}},
    ),
    Kind(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        "priorityclasses",
        {"value": 5},
        {**labelled(app="a"), "value": -7, "preemptionPolicy": "Never", "description": "rich"},
        {"description": "changed"},
        namespaced=False,
    ),
    Kind(
        "node.k8s.io/v1",
        "RuntimeClass",
        "runtimeclasses",
        {"handler": "runc"},
        {
            **labelled(app="a"),
            "handler": "other",
            "overhead": {"podFixed": {"cpu": "250m", "memory": "1024Ki"}},
            "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
        },
        {"scheduling": {"nodeSelector": {"a": "c"}}},
        namespaced=False,
    ),
)
