"""Scenarios with custom kinds as owners and as dependents; see `test_controllers.py`.

A real garbage collector discovers new kinds only every 30 seconds, so most definitions exist before it starts.
"""

from __future__ import annotations

from typing import Any

from harness.scenarios import Object, Scenario, ScenarioCluster
from real.controller_scenarios import HOLD, after_a_look, cm, make, ref, see

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def group(cluster: ScenarioCluster) -> str:
    """Every scenario has a group of its own."""
    return f"{cluster.ns}.example.com"


def define(cluster: ScenarioCluster, scope: str = "Namespaced") -> None:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group(cluster)}"},
        "spec": {"group": group(cluster), "names": names, "scope": scope, "versions": [version]},
    }
    cluster.post(DEFINITIONS, body)
    cluster.until("the kind is served", lambda: cluster.get(f"/apis/{group(cluster)}/v1/widgets").status == 200)


def widgets(cluster: ScenarioCluster, name: str = "", namespace: str | None = None) -> str:
    inside = cluster.ns if namespace is None else namespace
    root = f"/apis/{group(cluster)}/v1" + (f"/namespaces/{inside}" if inside else "")
    return f"{root}/widgets" + (f"/{name}" if name else "")


def make_widget(
    cluster: ScenarioCluster, name: str, *owners: Object, namespace: str | None = None, **metadata: Any
) -> Object:
    metadata = {"name": name, **metadata, **({"ownerReferences": list(owners)} if owners else {})}
    body = {"apiVersion": f"{group(cluster)}/v1", "kind": "Widget", "metadata": metadata}
    return cluster.post(widgets(cluster, namespace=namespace), body)


def owner_of_all(cluster: ScenarioCluster, policy: str) -> None:
    cluster.make_namespace()
    owner = make_widget(cluster, "owner")
    make(cluster, "map", ref(owner, True))
    make_widget(cluster, "widget", ref(owner, True))
    after_a_look(cluster)
    cluster.kubectl(f"delete widgets.{group(cluster)} owner --cascade={policy}")
    if policy == "background":
        cluster.until_gone(cm(cluster, "map"), widgets(cluster, "widget"))
    after_a_look(cluster)
    see(cluster)
    cluster.note_all(widgets(cluster))


def owned(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    first, second = make(cluster, "first"), make(cluster, "second")
    make_widget(cluster, "widget", ref(first, True), ref(second))
    make_widget(cluster, "lost", {**ref(first), "uid": "00000000-0000-4000-8000-000000000000"})
    cluster.until_gone(widgets(cluster, "lost"))
    cluster.delete(cm(cluster, "first"), "Background")
    cluster.until("a reference is struck off", lambda: len(owners(cluster, "widget")) == 1)
    cluster.note_all(widgets(cluster))
    cluster.delete(cm(cluster, "second"), "Background")
    cluster.until_gone(widgets(cluster, "widget"))
    see(cluster)


def owners(cluster: ScenarioCluster, name: str) -> list[Object]:
    return cluster.get(widgets(cluster, name)).json()["metadata"].get("ownerReferences") or []


def cluster_scoped(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    owner = make_widget(cluster, "owner", namespace="")
    make(cluster, "map", ref(owner, True))
    make_widget(cluster, "widget", ref(owner, True), namespace="")
    after_a_look(cluster)
    cluster.delete(widgets(cluster, "owner", ""), "Background")
    cluster.until_gone(cm(cluster, "map"), widgets(cluster, "widget", ""))
    see(cluster)


def definition_goes(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    owner = make_widget(cluster, "owner")
    make(cluster, "map", ref(owner, True))
    after_a_look(cluster)
    cluster.kubectl(f"delete crd widgets.{group(cluster)}")
    cluster.until_gone(cm(cluster, "map"))
    see(cluster)


def namespace_goes(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    make_widget(cluster, "free")
    make_widget(cluster, "held", finalizers=[HOLD])
    cluster.kubectl(f"delete namespace {cluster.ns} --wait=false")
    path = f"/api/v1/namespaces/{cluster.ns}"
    cluster.until("it says what is left", lambda: "conditions" in cluster.get(path).json()["status"])
    cluster.note("the namespace", cluster.get(path).json()["status"])
    cluster.patch(widgets(cluster, "held"), {"metadata": {"finalizers": None}})
    cluster.until_gone(path)


def comes_later(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    define(cluster)
    owner = make_widget(cluster, "owner")
    make(cluster, "map", ref(owner, True))
    make_widget(cluster, "widget", ref(owner, True))
    cluster.delete(widgets(cluster, "owner"), "Background")
    cluster.until_gone(cm(cluster, "map"), widgets(cluster, "widget"))
    see(cluster)


CUSTOM = [
    Scenario("a kind that comes later", comes_later),
    Scenario(
        "a widget and its family in the background", lambda place: owner_of_all(place, "background"), prepare=define
    ),
    Scenario(
        "a widget and its family in the foreground", lambda place: owner_of_all(place, "foreground"), prepare=define
    ),
    Scenario("a widget and its orphans", lambda place: owner_of_all(place, "orphan"), prepare=define),
    Scenario("a widget with owners", owned, prepare=define),
    Scenario("a widget without a namespace", cluster_scoped, prepare=lambda place: define(place, "Cluster")),
    Scenario("a definition goes with its widgets and what they own", definition_goes, prepare=define),
    Scenario("a namespace goes with its widgets", namespace_goes, prepare=define),
]
