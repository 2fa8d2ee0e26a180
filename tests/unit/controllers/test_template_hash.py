"""Hashes of pod templates against those of kube-controller-manager's own function (Go, Kubernetes v1.35.8)."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import all_schemas
from headgate.controllers.deployments.template_hash import TemplateHash

PLAIN: Any = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
MUCH = {
    "metadata": {"labels": {"tier": "front", "app": "web"}, "annotations": {"note": "é"}},
    "spec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "containers": [
            {
                "name": "c",
                "image": "nginx:1.27",
                "command": ["run", "--fast"],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {
                    "limits": {"memory": "1Gi", "cpu": "2"},
                    "requests": {"cpu": "100m", "memory": "200000Gi"},
                },
                "readinessProbe": {
                    "httpGet": {"path": "/", "port": "http", "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                },
                "env": [
                    {"name": "A", "value": "b"},
                    {"name": "M", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "0"}}},
                ],
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
    },
}
ODD = {
    "metadata": {"labels": {"app": "db"}},
    "spec": {
        "hostNetwork": True,
        "serviceAccount": "s",
        "nodeSelector": {"b": "2", "a": "1"},
        "containers": [{"name": "c", "image": "x"}],
        "volumes": [
            {"name": "v", "emptyDir": {"sizeLimit": "1e3"}},
            {"name": "r", "rbd": {"monitors": ["m"], "image": "i", "pool": "p", "user": "u"}},
        ],
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 0}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "t", "labelSelector": {"matchLabels": {"x": "y"}}}
                ]
            }
        },
    },
}


@pytest.mark.parametrize(
    ("template", "never", "three_times"),
    [
        (PLAIN, "7575594cf6", "5866f98c"),
        (MUCH, "78c748ff56", "6894cc847"),
        (ODD, "746f48fd87", "6c7964b7d8"),
    ],
)
def test_a_template_has_the_hash_of_kubernetes(template: Any, never: str, three_times: str) -> None:
    hashed = TemplateHash(all_schemas())
    assert (hashed(template, None), hashed(template, 3)) == (never, three_times)


def test_empty_lists_and_maps_equal_absent_ones_but_empty_structs_do_not() -> None:
    hashed = TemplateHash(all_schemas())
    (container,) = PLAIN["spec"]["containers"]
    empties = {**PLAIN, "spec": {"containers": [{**container, "args": [], "env": None}], "nodeSelector": {}}}
    assert hashed(empties, None) == hashed(PLAIN, None)
    chosen = {**PLAIN, "spec": {**PLAIN["spec"], "securityContext": {}}}
    assert hashed(chosen, None) != hashed(PLAIN, None)
