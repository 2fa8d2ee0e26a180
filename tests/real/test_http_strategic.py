"""Strategic merge patches: lists by key, directives, and what they refuse."""

from __future__ import annotations

import pytest

from harness.objects import CONFIG_MAPS, DEPLOYMENTS, PODS, SERVICES, config_map, deployment, gated, pod, service
from harness.request_cases import Case, case, patch, post
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

ME = f"{CONFIG_MAPS}/me"
TEMPLATE = {"metadata": {"labels": {"app": "a"}}}
TWO = {
    **TEMPLATE,
    "spec": {
        "containers": [
            {
                "name": "one",
                "image": "i:1",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 80, "name": "web"}],
            },
            {"name": "two", "image": "j:1"},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}
DEP = f"{DEPLOYMENTS}/d"


def strategic(name: str, *bodies: object) -> Case:
    return case(
        f"strategic patch: {name}",
        post(DEPLOYMENTS, deployment("d", template=TWO)),
        *(patch(DEP, each, "strategic") for each in bodies),
    )


def in_pods(**spec: object) -> dict[str, object]:
    return {"spec": {"template": {"spec": spec}}}


CASES = [
    strategic("merges a list by its key", in_pods(containers=[{"name": "two", "image": "j:2"}])),
    strategic("adds to a list", in_pods(containers=[{"name": "three", "image": "k"}])),
    strategic(
        "deletes from a list",
        in_pods(containers=[{"$patch": "delete", "name": "two"}]),
        in_pods(containers=[{"$patch": "delete", "name": "none"}]),
    ),
    strategic("replaces a list", in_pods(containers=[{"name": "new", "image": "n"}, {"$patch": "replace"}])),
    strategic(
        "sets the order of a list",
        in_pods(**{"$setElementOrder/containers": [{"name": "two"}, {"name": "one"}]}),
        in_pods(
            **{
                "$setElementOrder/containers": [{"name": "two"}, {"name": "one"}],
                "containers": [{"name": "one", "image": "x"}],
            }
        ),
    ),
    strategic(
        "order that lacks an item",
        in_pods(**{"$setElementOrder/containers": [{"name": "one"}], "containers": [{"name": "two", "image": "x"}]}),
    ),
    strategic(
        "nested lists",
        in_pods(containers=[{"name": "one", "env": [{"name": "B", "value": "9"}, {"$patch": "delete", "name": "A"}]}]),
        in_pods(containers=[{"name": "one", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]}]),
    ),
    strategic("replaces a map", {"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}}),
    strategic("deletes a map", {"metadata": {"annotations": {"$patch": "delete"}}}),
    strategic(
        "retains keys",
        in_pods(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]),
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
    ),
    strategic(
        "deletes from a primitive list",
        {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}},
        {"metadata": {"finalizers": None}},
    ),
    strategic("null for a list", in_pods(volumes=None), in_pods(containers=None)),
    strategic("an item without its key", in_pods(containers=[{"image": "x"}])),
    strategic(
        "unknown directives",
        in_pods(containers=[{"$patch": "odd", "name": "one"}]),
        {"spec": {"$patch": "odd"}},
        {"spec": {"$odd": 1}},
        {"$patch": "replace"},
    ),
    strategic(
        "wrong types",
        in_pods(containers={"name": "x"}),
        in_pods(containers=["x"]),
        {"spec": []},
        {"spec": {"replicas": "x"}},
        "[]",
        "null",
        "{",
    ),
    strategic("unknown fields", {"spec": {"odd": 1}}),
    strategic(
        "an atomic list is replaced",
        in_pods(containers=[{"name": "one", "args": ["a", "b"]}]),
        in_pods(containers=[{"name": "one", "args": ["c"]}]),
        in_pods(tolerations=[{"key": "a", "operator": "Exists"}]),
        in_pods(tolerations=[{"key": "b", "operator": "Exists"}]),
    ),
    case(
        "strategic patch: gates",
        post(PODS, gated("p", "a", "b")),
        patch(f"{PODS}/p", {"spec": {"schedulingGates": [{"$patch": "delete", "name": "a"}]}}, "strategic"),
        patch(f"{PODS}/p", {"spec": {"schedulingGates": [{"name": "c"}]}}, "strategic"),
        patch(f"{PODS}/p", {"spec": {"schedulingGates": None}}, "strategic"),
        patch(f"{PODS}/p", {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}}, "strategic"),
    ),
    case(
        "strategic patch: the ports of a service",
        post(SERVICES, service("s", ports=[{"name": "a", "port": 80}, {"name": "b", "port": 81}])),
        patch(f"{SERVICES}/s", {"spec": {"ports": [{"port": 80, "name": "c"}]}}, "strategic"),
        patch(f"{SERVICES}/s", {"spec": {"ports": [{"port": 82, "name": "d"}]}}, "strategic"),
        patch(f"{SERVICES}/s", {"spec": {"ports": [{"$patch": "delete", "port": 81}]}}, "strategic"),
        patch(f"{SERVICES}/s", {"spec": {"selector": {"$patch": "replace", "x": "y"}}}, "strategic"),
    ),
    case(
        "strategic patch: conditions in a status",
        post(PODS, pod("p")),
        patch(f"{PODS}/p/status", {"status": {"conditions": [{"type": "A", "status": "True"}]}}, "strategic"),
        patch(
            f"{PODS}/p/status",
            {"status": {"conditions": [{"type": "B", "status": "False"}, {"type": "A", "status": "False"}]}},
            "strategic",
        ),
        patch(
            f"{PODS}/p/status",
            {
                "status": {
                    "conditions": [{"type": "A", "$patch": "delete"}],
                    "$setElementOrder/conditions": [{"type": "B"}],
                }
            },
            "strategic",
        ),
    ),
    case(
        "strategic patch: owner references merge by uid",
        post(
            CONFIG_MAPS,
            {
                **config_map("me"),
                "metadata": {
                    "name": "me",
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
                },
            },
        ),
        patch(ME, {"metadata": {"ownerReferences": [{"uid": "u", "controller": True}]}}, "strategic"),
        patch(ME, {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "u"}]}}, "strategic"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_strategic_patches_are_answered_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
