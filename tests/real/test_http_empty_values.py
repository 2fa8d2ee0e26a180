"""Explicit empty lists and maps: which manager owns them, how they are stored, which write counts as a change."""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import CONFIG_MAPS, CORE, PODS, config_map, pod
from harness.request_cases import AnyStep, Case, Edited, apply, case, cases_of, delete, get, patch, post, put
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

# Kinds with a list that is printed always, and the manifest that leaves it empty.
LISTS: dict[str, tuple[str, dict[str, Any]]] = {
    "LimitRange": (
        f"{CORE}/namespaces/{{ns}}/limitranges",
        {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": []}},
    ),
    "CSINode": (
        "/apis/storage.k8s.io/v1/csinodes",
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "spec": {"drivers": []}},
    ),
    "EndpointSlice": (
        "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices",
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "addressType": "IPv4",
            "endpoints": [],
            "ports": [],
        },
    ),
    "Role": (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": []},
    ),
}


def life(collection: str, manifest: dict[str, Any]) -> list[AnyStep]:
    body = {**manifest, "metadata": {"name": "{ns}-empty"}}
    path = f"{collection}/{{ns}}-empty"
    return [
        post(f"{collection}?dryRun=All&fieldManager=maker", body),
        post(f"{collection}?fieldManager=maker", body).named("made"),
        get(path),
        patch(f"{path}?fieldManager=labeller", {"metadata": {"labels": {"a": "b"}}}),
        put(f"{path}?fieldManager=putter", Edited("made", {"metadata": {"resourceVersion": None}})),
        put(f"{path}?fieldManager=spelling", {**body, "metadata": {"name": "{ns}-empty", "labels": {"c": "d"}}}),
        apply(path, body, "applier"),
        apply(path, {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}, "applier"),
        apply(path, body, "other", force=True),
        delete(path),
    ]


EMPTY_EVERYTHING: dict[str, Any] = {
    "nodeSelector": {},
    "tolerations": [],
    "volumes": [],
    "schedulingGates": [],
    "securityContext": {},
    "affinity": {},
    "imagePullSecrets": [],
}
OTHERS = [
    case(
        "optional empties of a pod belong to nobody",
        post(f"{PODS}?fieldManager=maker", {**pod("p"), "spec": {**pod("p")["spec"], **EMPTY_EVERYTHING}}),
        patch(f"{PODS}/p?fieldManager=changer", {"metadata": {"annotations": {}, "labels": {}, "finalizers": []}}),
    ),
    case(
        "a pod without containers but with their list",
        post(PODS, {**pod("p"), "spec": {"containers": []}}).in_any_order(),
        post(PODS, {**pod("p"), "spec": {"containers": None}}).in_any_order(),
        post(PODS, {**pod("p"), "spec": {"containers": [], "initContainers": []}}).in_any_order(),
    ),
    case(
        "empty maps of a config map",
        post(f"{CONFIG_MAPS}?fieldManager=maker", {**config_map("c"), "data": {}, "binaryData": {}}),
        patch(f"{CONFIG_MAPS}/c?fieldManager=changer", {"data": {}}),
        apply(f"{CONFIG_MAPS}/c", {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}, "applier"),
    ),
]
CASES = cases_of([case(f"an empty list of a {name} has an owner", *life(*row)) for name, row in LISTS.items()], OTHERS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_empties_are_answered_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
