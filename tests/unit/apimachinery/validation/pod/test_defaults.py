"""Defaults of pods and of pod templates."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.defaults.image_references import wants_latest
from headgate.apimachinery.defaults.pod import default_pod_spec, default_pod_template
from unit.apimachinery.validation.pod.pods import defaulted, make_pod

HEX = "0123456789abcdef" * 4


def container_of(pod: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = pod["spec"]["containers"][0]
    return container


def test_a_minimal_pod_gets_the_defaults_of_the_api_server() -> None:
    assert defaulted(make_pod())["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "nginx:1",
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }


def test_defaulting_twice_changes_nothing_more() -> None:
    pod = defaulted(make_pod(container={"resources": {"limits": {"cpu": "1"}}}, volumes=[{"name": "v"}]))
    assert defaulted({**pod, "spec": {**pod["spec"]}}) == pod


def test_a_template_gets_less_than_a_pod() -> None:
    spec = make_pod(container={"resources": {"limits": {"cpu": "1"}}}, hostNetwork=True)["spec"]
    spec["containers"][0]["ports"] = [{"containerPort": 80}]
    default_pod_spec(spec)
    assert "enableServiceLinks" not in spec
    assert spec["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_a_template_without_a_spec_gets_one() -> None:
    template: dict[str, Any] = {}
    default_pod_template(template)
    assert template["spec"]["restartPolicy"] == "Always"


def test_old_init_container_annotations_are_dropped() -> None:
    annotations = {"pod.beta.kubernetes.io/init-containers": "[]", "keep": "me"}
    assert defaulted(make_pod(metadata={"annotations": annotations}))["metadata"]["annotations"] == {"keep": "me"}


@pytest.mark.parametrize(
    ("image", "latest"),
    [
        ("nginx", True),
        ("nginx:latest", True),
        ("nginx:1", False),
        (f"nginx@sha256:{HEX}", False),
        (f"nginx:latest@sha256:{HEX}", True),
        ("localhost/x", True),
        ("registry.example:5000/x", True),
        ("registry.example:5000/x:2", False),
        ("[::1]:5000/x", True),
        ("index.docker.io/x", True),
        ("Registry/x", True),
        ("x/Upper", False),
        (HEX, False),
        ("a//b", False),
        ("nginx@sha256:short", False),
        ("nginx@md5:" + HEX[:32], False),
        ("x:", False),
        ("", False),
        ("a" * 300, False),
    ],
)
def test_the_pull_policy_is_always_only_for_the_latest_tag(image: str, latest: bool) -> None:
    assert wants_latest(image) is latest
    policy = container_of(defaulted(make_pod(container={"image": image})))["imagePullPolicy"]
    assert policy == ("Always" if latest else "IfNotPresent")


def test_missing_requests_are_set_to_limits() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    assert container_of(defaulted(make_pod(container={"resources": resources})))["resources"]["requests"] == {
        "cpu": "1",
        "memory": "1Gi",
    }


def test_amounts_finer_than_a_thousandth_are_rounded_up() -> None:
    resources = {"requests": {"cpu": "100u", "memory": "1Gi"}}
    pod = defaulted(make_pod(container={"resources": resources}, overhead={"cpu": "1500u"}))
    assert container_of(pod)["resources"]["requests"] == {"cpu": "1m", "memory": "1Gi"}
    assert pod["spec"]["overhead"] == {"cpu": "2m"}


@pytest.mark.parametrize(
    ("pod_level", "container", "expected"),
    [
        ({"limits": {"cpu": "2"}}, {}, {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}),
        (
            {"limits": {"cpu": "2"}},
            {"requests": {"cpu": "500m", "memory": "1Gi"}},
            {"limits": {"cpu": "2"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
        ),
        ({"requests": {"cpu": "2"}}, {"requests": {"memory": "1Gi"}}, {"requests": {"cpu": "2"}}),
        (
            {"requests": {"cpu": "2"}},
            {"limits": {"hugepages-2Mi": "4Mi"}},
            {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"cpu": "2", "hugepages-2Mi": "4Mi"}},
        ),
        ({}, {"limits": {"cpu": "1"}}, {}),
    ],
)
def test_resources_of_the_pod_are_completed_from_its_containers(
    pod_level: dict[str, Any], container: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert defaulted(make_pod(container={"resources": container}, resources=pod_level))["spec"]["resources"] == expected


def test_on_the_host_network_container_ports_are_host_ports() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 9}]
    pod = defaulted(make_pod(container={"ports": ports}, hostNetwork=True))
    assert [port["hostPort"] for port in container_of(pod)["ports"]] == [80, 9]


def test_both_fields_of_the_service_account_are_set() -> None:
    assert defaulted(make_pod(serviceAccount="old"))["spec"]["serviceAccountName"] == "old"
    assert defaulted(make_pod(serviceAccountName="new", serviceAccount="old"))["spec"]["serviceAccount"] == "new"


def test_a_negative_grace_period_becomes_one_second_in_a_pod_only() -> None:
    assert defaulted(make_pod(terminationGracePeriodSeconds=-5))["spec"]["terminationGracePeriodSeconds"] == 1
    template = {"terminationGracePeriodSeconds": -5}
    default_pod_spec(template)
    assert template["terminationGracePeriodSeconds"] == -5


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
        ({"secret": {}}, {"secret": {"defaultMode": 420}}),
        ({"configMap": {"defaultMode": 0}}, {"configMap": {"defaultMode": 0}}),
        ({"iscsi": {}}, {"iscsi": {"iscsiInterface": "default"}}),
        ({"rbd": {}}, {"rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}}),
        ({"scaleIO": {}}, {"scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"}}),
        (
            {"azureDisk": {"kind": "Managed"}},
            {"azureDisk": {"kind": "Managed", "cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False}},
        ),
        ({"image": {"reference": "x"}}, {"image": {"reference": "x", "pullPolicy": "Always"}}),
        (
            {"projected": {"sources": [{"serviceAccountToken": {}}, {"downwardAPI": {"items": [{"fieldRef": {}}]}}]}},
            {
                "projected": {
                    "defaultMode": 420,
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3600}},
                        {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1"}}]}},
                    ],
                }
            },
        ),
        (
            {"ephemeral": {"volumeClaimTemplate": {}}},
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem"}}}},
        ),
    ],
)
def test_volumes_get_their_defaults(volume: dict[str, Any], expected: dict[str, Any]) -> None:
    pod = defaulted(make_pod(volumes=[{"name": "v", **volume}]))
    assert pod["spec"]["volumes"] == [{"name": "v", **expected}]


def test_probes_and_hooks_get_their_defaults() -> None:
    container = {
        "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5},
        "startupProbe": {"grpc": {"port": 1}},
        "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    }
    got = container_of(defaulted(make_pod(container=container)))
    common = {"timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}
    get = {"port": 80, "path": "/", "scheme": "HTTP"}
    assert got["livenessProbe"] == {"httpGet": get, "periodSeconds": 5, **common}
    assert got["startupProbe"] == {"grpc": {"port": 1, "service": ""}, "periodSeconds": 10, **common}
    assert got["lifecycle"] == {"preStop": {"httpGet": get}}
    assert got["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"


def test_the_first_of_a_pods_addresses_is_its_address() -> None:
    pod = make_pod()
    pod["status"] = {"podIP": "10.0.0.1"}
    assert defaulted(pod)["status"] == {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
    pod["status"] = {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.1"}]}
    assert defaulted(pod)["status"]["podIPs"] == [{"ip": "10.0.0.9"}]
    pod["status"] = {"podIPs": [{"ip": "10.0.0.1"}]}
    assert defaulted(pod)["status"]["podIP"] == "10.0.0.1"
