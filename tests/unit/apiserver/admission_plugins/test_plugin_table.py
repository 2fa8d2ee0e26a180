"""The tables of plugins: their order, and that each plugin changes only its own fields."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from embedded import a_pod
from headgate.apimachinery.api_errors import GroupResource
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes
from headgate.apiserver.admission_plugins.plugin_table import MUTATING, VALIDATING, PluginRegistration, builtin

# The order in which v1.35.8 runs the plugins that are built here.
ORDER = (
    "NamespaceLifecycle",
    "LimitRanger",
    "ServiceAccount",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "DefaultIngressClass",
    "PodTopologyLabels",
)


class Fixed:
    """A cluster of a few objects."""

    def __init__(self, objects: dict[str, list[dict[str, Any]]]) -> None:
        self.objects = objects

    def get(self, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        return next((each for each in self.objects[resource] if each["metadata"]["name"] == name), None)

    def labels(self, resource: str, namespace: str, name: str) -> Mapping[str, str] | None:
        found = self.get(resource, namespace, name)
        return None if found is None else found["metadata"]["labels"]

    def list(self, resource: str, namespace: str | None) -> Iterable[dict[str, Any]]:
        return self.objects[resource]


def a_cluster() -> Fixed:
    limit = {"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}
    scheduling = {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]}
    runtime = {"overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": scheduling}
    zone = {"topology.kubernetes.io/zone": "z"}
    return Fixed(
        {
            "namespaces": [{"metadata": {"name": "t"}, "status": {"phase": "Active"}}],
            "limitranges": [{"metadata": {"name": "l"}, "spec": {"limits": [limit]}}],
            "priorityclasses.scheduling.k8s.io": [{"metadata": {"name": "p"}, "value": 3, "globalDefault": True}],
            "runtimeclasses.node.k8s.io": [{"metadata": {"name": "r"}, "handler": "h", **runtime}],
            "serviceaccounts": [{"metadata": {"name": "default", "labels": {}}, "imagePullSecrets": [{"name": "s"}]}],
            "nodes": [{"metadata": {"name": "n", "labels": zone}}],
        }
    )


def creating_a_pod() -> AdmissionAttributes:
    return AdmissionAttributes("CREATE", GroupResource("", "pods"), "Pod", "", "t", "a", "admin", dry_run=False)


@pytest.mark.parametrize("rows", [MUTATING, VALIDATING])
def test_plugins_run_in_the_order_of_a_real_server(rows: tuple[PluginRegistration, ...]) -> None:
    ranks = [ORDER.index(row.plugin) for row in rows]
    assert ranks == sorted(ranks)


def test_a_pod_meets_every_plugin_that_is_for_pods() -> None:
    pod = a_pod(runtimeClassName="r", nodeName="n")
    assert builtin().mutate(creating_a_pod(), pod, None, a_cluster()) is None
    assert builtin().validate(creating_a_pod(), pod, None, a_cluster()) is None
    spec = pod["spec"]
    assert spec["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert (spec["priorityClassName"], spec["priority"]) == ("p", 3)
    assert [each["key"] for each in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "k",
    ]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "250m"}, {"a": "b"})
    assert pod["metadata"]["labels"] == {"topology.kubernetes.io/zone": "z"}


def test_a_pod_shares_nothing_with_the_cluster_that_a_later_step_could_change() -> None:
    cluster, pod = a_cluster(), a_pod(runtimeClassName="r", nodeName="n")
    builtin().mutate(creating_a_pod(), pod, None, cluster)
    for changeable in (pod["spec"]["overhead"], pod["spec"]["nodeSelector"], pod["spec"]["tolerations"][-1]):
        changeable["changed"] = "later"
    assert cluster.objects == a_cluster().objects


def test_only_the_top_of_the_new_object_is_replaced() -> None:
    """Below it, the new object may share structure with the old one."""
    pod = a_pod(runtimeClassName="r", nodeName="n", tolerations=[{"key": "x"}], nodeSelector={"c": "d"})
    parts, before = {**pod}, copy.deepcopy(pod)
    builtin().mutate(creating_a_pod(), pod, None, a_cluster())
    assert parts == before


def test_a_subresource_of_a_pod_is_not_a_pod() -> None:
    attributes = AdmissionAttributes(
        "CREATE", GroupResource("", "pods"), "Eviction", "eviction", "t", "a", "admin", dry_run=False
    )
    eviction = {"metadata": {"name": "a"}}
    assert builtin().mutate(attributes, eviction, None, a_cluster()) is None
    assert eviction == {"metadata": {"name": "a"}}


def test_a_claim_that_is_not_bound_does_not_grow() -> None:
    """Validation refuses that first; the plugin stands behind it."""
    resource = GroupResource("", "persistentvolumeclaims")
    attributes = AdmissionAttributes("UPDATE", resource, "PersistentVolumeClaim", "", "t", "v", "admin", dry_run=False)
    old = {"metadata": {"name": "v"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    new = {"metadata": {"name": "v"}, "spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    refusal = builtin().validate(attributes, new, old, Fixed({"limitranges": []}))
    assert refusal is not None
    text = "Only bound persistent volume claims can be expanded"
    assert refusal.message == f'persistentvolumeclaims "v" is forbidden: {text}'


def test_plugins_meet_a_pod_in_turn_and_the_first_refusal_counts() -> None:
    pod = a_pod(priorityClassName="none", runtimeClassName="none")
    refusal = builtin().mutate(creating_a_pod(), pod, None, a_cluster())
    assert refusal is not None
    assert refusal.message == 'pods "a" is forbidden: no PriorityClass with name none was found'


def test_a_review_of_access_is_answered_for_any_namespace() -> None:
    resource = GroupResource("authorization.k8s.io", "localsubjectaccessreviews")
    attributes = AdmissionAttributes(
        "CREATE", resource, "LocalSubjectAccessReview", "", "nope", "", "admin", dry_run=False
    )
    assert builtin().mutate(attributes, {"metadata": {}}, None, a_cluster()) is None
