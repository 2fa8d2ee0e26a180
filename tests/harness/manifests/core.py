"""Manifests of the core group's namespaced kinds."""

from __future__ import annotations

from harness.manifests.kind import Kind, labelled
from harness.manifests.pods import RICH_POD_SPEC, SMALL_POD_SPEC, pod_template

CORE_KINDS: tuple[Kind, ...] = (
    Kind(
        "v1",
        "ConfigMap",
        "configmaps",
        {},
        {**labelled(app="a"), "data": {"a": "1", "b": ""}, "binaryData": {"c": "AAEC"}},
        {"data": {"a": "2", "b": None, "d": "4"}},
    ),
    Kind(
        "v1",
        "Secret",
        "secrets",
        {},
        {**labelled(app="a"), "type": "example.com/odd", "data": {"a": "MQ=="}, "stringData": {"a": "2", "b": "3"}},
        {"stringData": {"c": "4"}},
    ),
    Kind(
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        {},
        {**labelled(app="a"), "secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "p"}]},
        {"automountServiceAccountToken": False},
    ),
    Kind(
        "v1",
        "Service",
        "services",
        {"spec": {"ports": [{"port": 80}]}},
        {
            **labelled(app="a"),
            "spec": {
                "type": "LoadBalancer",
                "selector": {"app": "a"},
                "externalTrafficPolicy": "Local",
                "sessionAffinity": "ClientIP",
                "ports": [
                    {"name": "http", "port": 80, "targetPort": "http"},
                    {"name": "dns", "port": 53, "protocol": "UDP", "appProtocol": "example.com/dns"},
                ],
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
            },
        },
        {"spec": {"selector": {"app": "b"}, "publishNotReadyAddresses": True}},
        has_status=True,
        status={"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}},
    ),
    Kind(
        "v1",
        "Pod",
        "pods",
        {"spec": SMALL_POD_SPEC},
        {**labelled(app="a"), "spec": RICH_POD_SPEC},
        {"spec": {"schedulingGates": [{"name": "second"}]}},
        has_status=True,
        status={
            "status": {"phase": "Running", "message": "by hand", "conditions": [{"type": "Odd", "status": "True"}]}
        },
    ),
    Kind(
        "v1",
        "PodTemplate",
        "podtemplates",
        {"template": pod_template()},
        {**labelled(app="a"), "template": pod_template(RICH_POD_SPEC)},
        {"template": {"spec": {"priorityClassName": "other"}}},
    ),
    Kind(
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        {"spec": {"template": pod_template()}},
        {
            **labelled(app="a"),
            "spec": {"replicas": 3, "minReadySeconds": 5, "selector": {"app": "a"}, "template": pod_template()},
        },
        {"spec": {"replicas": 1}},
        has_status=True,
        status={"status": {"replicas": 2, "readyReplicas": 1, "observedGeneration": 1}},
    ),
    Kind(
        "v1",
        "ResourceQuota",
        "resourcequotas",
        {},
        {
            **labelled(app="a"),
            "spec": {
                "hard": {"cpu": 4.5, "requests.memory": "2048Mi", "pods": "10"},
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                },
            },
        },
        {"spec": {"hard": {"pods": "20"}}},
        has_status=True,
        status={"status": {"hard": {"pods": "10"}, "used": {"pods": "3000m"}}},
    ),
    Kind(
        "v1",
        "LimitRange",
        "limitranges",
        {"spec": {"limits": []}},
        {
            **labelled(app="a"),
            "spec": {
                "limits": [
                    {"type": "PersistentVolumeClaim", "min": {"storage": "1024Mi"}, "max": {"storage": "10Gi"}},
                    {"type": "Container", "max": {"cpu": "2"}, "default": {"memory": "512Mi"}},
                ]
            },
        },
        {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "4"}}]}},
    ),
    Kind(
        "v1",
        "Endpoints",
        "endpoints",
        {},
        {
            **labelled(app="a"),
            "subsets": [
                {
                    "addresses": [{"ip": "192.0.2.2", "nodeName": "n"}, {"ip": "192.0.2.1"}],
                    "ports": [{"name": "http", "port": 80}],
                }
            ],
        },
        {"subsets": []},
    ),
    Kind(
        "v1",
        "Event",
        "events",
        {"involvedObject": {"namespace": "{ns}"}},
        {
            **labelled(app="a"),
            "involvedObject": {"kind": "Pod", "namespace": "{ns}", "name": "p", "uid": "u", "apiVersion": "v1"},
            "reason": "Odd",
            "message": "something odd",
            "type": "Warning",
            "source": {"component": "test", "host": "h"},
            "firstTimestamp": "2020-01-01T00:00:00Z",
            "lastTimestamp": "2020-01-02T00:00:00Z",
            "count": 3,
        },
        {"count": 4, "message": "still odd"},
    ),
)
