"""Stories of custom kinds as owners and as dependents; see `test_controllers.py`.

A real garbage collector learns of new kinds every 30 seconds only, so most definitions are there before it starts.
"""

from __future__ import annotations

from typing import Any

from harness.scenarios import Object, Place, Story
from real.controller_scenarios import HOLD, after_a_look, cm, make, ref, see

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def group(place: Place) -> str:
    """Every story has a group of its own."""
    return f"{place.ns}.example.com"


def define(place: Place, scope: str = "Namespaced") -> None:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group(place)}"},
        "spec": {"group": group(place), "names": names, "scope": scope, "versions": [version]},
    }
    place.post(DEFINITIONS, body)
    place.until("the kind is served", lambda: place.get(f"/apis/{group(place)}/v1/widgets").status == 200)


def widgets(place: Place, name: str = "", namespace: str | None = None) -> str:
    inside = place.ns if namespace is None else namespace
    root = f"/apis/{group(place)}/v1" + (f"/namespaces/{inside}" if inside else "")
    return f"{root}/widgets" + (f"/{name}" if name else "")


def make_widget(place: Place, name: str, *owners: Object, namespace: str | None = None, **metadata: Any) -> Object:
    metadata = {"name": name, **metadata, **({"ownerReferences": list(owners)} if owners else {})}
    body = {"apiVersion": f"{group(place)}/v1", "kind": "Widget", "metadata": metadata}
    return place.post(widgets(place, namespace=namespace), body)


def owner_of_all(place: Place, policy: str) -> None:
    place.make_namespace()
    owner = make_widget(place, "owner")
    make(place, "map", ref(owner, True))
    make_widget(place, "widget", ref(owner, True))
    after_a_look(place)
    place.kubectl(f"delete widgets.{group(place)} owner --cascade={policy}")
    if policy == "background":
        place.until_gone(cm(place, "map"), widgets(place, "widget"))
    after_a_look(place)
    see(place)
    place.note_all(widgets(place))


def owned(place: Place) -> None:
    place.make_namespace()
    first, second = make(place, "first"), make(place, "second")
    make_widget(place, "widget", ref(first, True), ref(second))
    make_widget(place, "lost", {**ref(first), "uid": "00000000-0000-4000-8000-000000000000"})
    place.until_gone(widgets(place, "lost"))
    place.delete(cm(place, "first"), "Background")
    place.until("a reference is struck off", lambda: len(owners(place, "widget")) == 1)
    place.note_all(widgets(place))
    place.delete(cm(place, "second"), "Background")
    place.until_gone(widgets(place, "widget"))
    see(place)


def owners(place: Place, name: str) -> list[Object]:
    return place.get(widgets(place, name)).json()["metadata"].get("ownerReferences") or []


def cluster_scoped(place: Place) -> None:
    place.make_namespace()
    owner = make_widget(place, "owner", namespace="")
    make(place, "map", ref(owner, True))
    make_widget(place, "widget", ref(owner, True), namespace="")
    after_a_look(place)
    place.delete(widgets(place, "owner", ""), "Background")
    place.until_gone(cm(place, "map"), widgets(place, "widget", ""))
    see(place)


def definition_goes(place: Place) -> None:
    place.make_namespace()
    owner = make_widget(place, "owner")
    make(place, "map", ref(owner, True))
    after_a_look(place)
    place.kubectl(f"delete crd widgets.{group(place)}")
    place.until_gone(cm(place, "map"))
    see(place)


def namespace_goes(place: Place) -> None:
    place.make_namespace()
    make_widget(place, "free")
    make_widget(place, "held", finalizers=[HOLD])
    place.kubectl(f"delete namespace {place.ns} --wait=false")
    path = f"/api/v1/namespaces/{place.ns}"
    place.until("it says what is left", lambda: "conditions" in place.get(path).json()["status"])
    place.note("the namespace", place.get(path).json()["status"])
    place.patch(widgets(place, "held"), {"metadata": {"finalizers": None}})
    place.until_gone(path)


def comes_later(place: Place) -> None:
    place.make_namespace()
    define(place)
    owner = make_widget(place, "owner")
    make(place, "map", ref(owner, True))
    make_widget(place, "widget", ref(owner, True))
    place.delete(widgets(place, "owner"), "Background")
    place.until_gone(cm(place, "map"), widgets(place, "widget"))
    see(place)


CUSTOM = [
    Story("a kind that comes later", comes_later),
    Story("a widget and its family in the background", lambda place: owner_of_all(place, "background"), before=define),
    Story("a widget and its family in the foreground", lambda place: owner_of_all(place, "foreground"), before=define),
    Story("a widget and its orphans", lambda place: owner_of_all(place, "orphan"), before=define),
    Story("a widget with owners", owned, before=define),
    Story("a widget without a namespace", cluster_scoped, before=lambda place: define(place, "Cluster")),
    Story("a definition goes with its widgets and what they own", definition_goes, before=define),
    Story("a namespace goes with its widgets", namespace_goes, before=define),
]
