"""Warnings about pods."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.pods.volume_warnings import volume_warnings
from headgate.apimachinery.pods.warnings import pod_template_warnings, pod_warnings
from unit.apimachinery.validation.pod.pods import REQUIRED, defaulted, make_pod

NO_MATCH = "a null labelSelector results in matching no pod"


@pytest.mark.parametrize(
    ("spec", "warnings"),
    [
        ({}, []),
        (
            {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
            ['spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'],
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "app.kubernetes.io/created-by"}]},
            [
                "spec.topologySpreadConstraints[0].topologyKey: app.kubernetes.io/created-by is deprecated since v1.9",
                f"spec.topologySpreadConstraints[0].labelSelector: {NO_MATCH}",
            ],
        ),
        (
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "z"}]}}},
            [f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector: {NO_MATCH}"],
        ),
        (
            {"hostAliases": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}], "imagePullSecrets": [{}]},
            [
                'spec.hostAliases[1].ip: duplicate ip "1.2.3.4"',
                'spec.imagePullSecrets[0].name: invalid empty name ""',
            ],
        ),
        (
            {"volumes": [{"name": "v", "rbd": {}}]},
            ["spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+"],
        ),
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "s", "items": [{"path": "a"}, {"path": "a/b"}]}}]},
            ['volume "v" (Secret "s"): overlapping paths: "a/b" with "a"'],
        ),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{}]}}]},
            ['volume "v" (Projected) has no sources provided'],
        ),
        (
            {"dnsConfig": {"nameservers": ["010.0.0.1"]}},
            [
                'spec.dnsConfig.nameservers[0]: non-standard IP address "010.0.0.1" will be considered invalid in a '
                'future Kubernetes release: use "10.0.0.1"'
            ],
        ),
    ],
)
def test_warnings_of_a_pod(spec: dict[str, Any], warnings: list[str]) -> None:
    assert pod_warnings(defaulted(make_pod(**spec))) == warnings


@pytest.mark.parametrize(
    ("container", "warnings"),
    [
        (
            {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "A", "value": "$(A)3"}]},
            ['env[1]: hides previous definition of "A", which may be dropped when using apply'],
        ),
        (
            {"ports": [{"containerPort": 80, "name": "x"}, {"containerPort": 80, "name": "x"}]},
            [
                "ports[1]: duplicate port definition with spec.containers[0].ports[0]",
                'ports[1]: duplicate port name "x" with spec.containers[0].ports[0], services and probes that select '
                "ports by name will use spec.containers[0].ports[0]",
            ],
        ),
        (
            {
                "ports": [
                    {"containerPort": 80, "hostPort": 1},
                    {"containerPort": 80, "hostPort": 1, "hostIP": "1.1.1.1"},
                ]
            },
            ["ports[1]: dangerously ambiguous port definition with spec.containers[0].ports[0]"],
        ),
        (
            {"ports": [{"containerPort": 80, "hostIP": "1.1.1.1"}]},
            ["ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:1.1.1.1}"],
        ),
        (
            {"resources": {"requests": {"memory": "1500m"}}},
            ['resources.requests[memory]: fractional byte value "1500m" is invalid, must be an integer'],
        ),
    ],
)
def test_warnings_of_a_container(container: dict[str, Any], warnings: list[str]) -> None:
    expected = [f"spec.containers[0].{each}" for each in warnings]
    assert pod_warnings(defaulted(make_pod(container=container))) == expected


def test_a_name_that_is_not_a_hostname_gets_a_warning() -> None:
    assert pod_warnings(defaulted(make_pod(metadata={"name": "a.b"}))) == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is "
        "recommended: [must not contain dots]"
    ]


def test_an_update_gives_no_warnings() -> None:
    pod = defaulted(make_pod(metadata={"name": "a.b"}))
    assert pod_warnings(pod, pod) == []


def test_warnings_of_a_template_have_its_path() -> None:
    annotation = "container.apparmor.security.beta.kubernetes.io/c"
    template = defaulted(make_pod(metadata={"annotations": {annotation: "unconfined"}}))
    assert pod_template_warnings(template, "spec.template") == [
        f"spec.template.metadata.annotations[{annotation}]: deprecated since v1.30; use the "
        '"appArmorProfile" field instead'
    ]


def test_the_number_of_compared_path_parts_is_limited() -> None:
    def warned(*paths: str) -> list[str]:
        items = [{"key": "k", "path": path} for path in paths]
        volumes = [{"name": "v", "configMap": {"name": "c", "items": items}}]
        return [each for each in volume_warnings(volumes, "spec.volumes") if "overlapping" in each]

    deep = "a/" * 90_000 + "b"
    assert len(warned("x", "x")) == 1
    assert len(warned(deep, "x", "x")) == 1
    assert warned(deep, deep, "x", "x") == []
