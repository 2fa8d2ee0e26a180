"""Server-side apply: managers, conflicts, ownership of items, and what it refuses."""

from __future__ import annotations

import pytest

from harness.objects import CONFIG_MAPS, DEPLOYMENTS, PODS, config_map, deployment, gated, pod
from harness.request_cases import Case, apply, case, delete, get, patch, post
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

ME = f"{CONFIG_MAPS}/me"
MADE = post(f"{CONFIG_MAPS}?fieldManager=maker", config_map("me", {"a": "1", "b": "2"}, {"x": "y"})).named("me")


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


APPLIED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "me"}}


def applied(**data: str) -> dict[str, object]:
    return {**APPLIED, "data": data}


CASES = [
    case(
        "apply: creates and updates",
        apply(ME, applied(a="1")),
        apply(ME, applied(a="2")),
        apply(ME, applied(b="2")),
        get(ME),
    ),
    case(
        "apply: without a manager",
        patch(ME, applied(a="1"), "apply"),
        patch(f"{ME}?fieldManager=", applied(a="1"), "apply"),
    ),
    case(
        "apply: conflicts and force",
        apply(ME, applied(a="1", b="1"), "one"),
        apply(ME, applied(a="2"), "two"),
        apply(ME, applied(a="2", b="2"), "two"),
        apply(ME, applied(a="2"), "two", force=True),
        apply(ME, applied(b="1"), "one"),
        apply(ME, applied(), "two"),
    ),
    case(
        "apply: shared fields stay until both let go",
        apply(ME, applied(a="1"), "one"),
        apply(ME, applied(a="1"), "two"),
        apply(ME, applied(), "one"),
        apply(ME, applied(), "two"),
    ),
    case(
        "apply: over an update",
        MADE,
        apply(ME, applied(a="2"), "one"),
        apply(ME, applied(a="1"), "one"),
        apply(ME, applied(a="2"), "one", force=True),
        patch(f"{ME}?fieldManager=three", {"data": {"a": "3"}}),
        apply(ME, applied(a="4"), "one"),
    ),
    case(
        "apply: an update takes an applied field",
        apply(ME, applied(a="1"), "one"),
        patch(f"{ME}?fieldManager=two", {"data": {"a": "2"}}),
        apply(ME, applied(a="1"), "one"),
        patch(f"{ME}?fieldManager=two", {"data": {"a": None}}),
        apply(ME, applied(a="1"), "one"),
    ),
    case(
        "apply: gates are owned one by one",
        apply(f"{PODS}/p", gated("p", "a"), "one"),
        apply(
            f"{PODS}/p",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p"},
                "spec": {"schedulingGates": [{"name": "a"}]},
            },
            "two",
        ),
        apply(f"{PODS}/p", pod("p"), "one"),
        apply(f"{PODS}/p", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, "two"),
    ),
    case(
        "apply: names and kinds must agree",
        apply(ME, {**applied(), "metadata": {"name": "other"}}),
        apply(ME, {**applied(), "kind": "Secret"}),
        apply(ME, {**applied(), "apiVersion": "v2"}),
        apply(ME, {**applied(), "metadata": {}}),
        apply(ME, {"metadata": {"name": "me"}}),
        apply(ME, {**applied(), "metadata": {"name": "me", "namespace": "other"}}),
    ),
    case(
        "apply: with managed fields inside",
        apply(
            ME,
            {
                **APPLIED,
                "metadata": {
                    "name": "me",
                    "managedFields": [{"manager": "x", "operation": "Apply", "apiVersion": "v1"}],
                },
            },
        ),
        apply(ME, {**APPLIED, "metadata": {"name": "me", "managedFields": []}}),
        apply(ME, {**APPLIED, "metadata": {"name": "me", "managedFields": None}}),
    ),
    case(
        "apply: in yaml",
        patch(
            f"{ME}?fieldManager=y", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: me\ndata:\n  a: '1'\n", "apply"
        ),
        patch(f"{ME}?fieldManager=y", "a: [b", "apply"),
        patch(f"{ME}?fieldManager=y", "", "apply"),
        patch(f"{ME}?fieldManager=y", "- a", "apply"),
        patch(f"{ME}?fieldManager=y", "null", "apply"),
    ),
    case(
        "apply: unknown fields",
        *(
            apply(f"{ME}?fieldValidation={mode}", {**applied(a=mode), "odd": 1})
            for mode in ("Strict", "Warn", "Ignore")
        ),
    ),
    case(
        "apply: duplicate fields",
        patch(
            f"{ME}?fieldManager=d",
            '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"me"},"data":{"a":"1","a":"2"}}',
            "apply",
        ),
    ),
    case(
        "apply: a wrong type",
        apply(ME, {**APPLIED, "data": {"a": 1}}),
        apply(ME, {**APPLIED, "data": []}),
        apply(f"{DEPLOYMENTS}/d", deployment("d", replicas="x")),
    ),
    case(
        "apply: a dry run",
        apply(f"{ME}?dryRun=All", applied(a="1")),
        get(ME),
        apply(ME, applied(a="1")),
        apply(f"{ME}?dryRun=All", applied(a="2")),
        get(ME),
    ),
    case(
        "apply: at a revision",
        apply(ME, applied(a="1")),
        apply(ME, {**applied(a="2"), "metadata": {"name": "me", "resourceVersion": "1"}}),
        apply(ME, {**applied(a="2"), "metadata": {"name": "me", "uid": "11111111-2222-3333-4444-555555555555"}}),
    ),
    case(
        "apply: creating with a uid or a revision",
        apply(ME, {**applied(a="2"), "metadata": {"name": "me", "resourceVersion": "1"}}),
        apply(ME, {**applied(a="2"), "metadata": {"name": "me", "uid": "11111111-2222-3333-4444-555555555555"}}),
    ),
    case(
        "apply: items of an associative list",
        apply(DEP, deployment("d", template=TWO), "one"),
        apply(
            DEP,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d"},
                "spec": {"template": {"spec": {"containers": [{"name": "three", "image": "t"}]}}},
            },
            "two",
        ),
        apply(
            DEP,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d"},
                "spec": {"template": {"spec": {"containers": [{"name": "one", "image": "changed"}]}}},
            },
            "two",
        ),
        apply(DEP, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}, "two"),
    ),
    case(
        "apply: an item twice",
        apply(
            DEP,
            deployment(
                "d",
                template={
                    **TEMPLATE,
                    "spec": {"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "j"}]},
                },
            ),
        ),
    ),
    case(
        "apply: to the status",
        post(PODS, pod("p")),
        patch(
            f"{PODS}/p/status?fieldManager=s",
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Running"}},
            "apply",
        ),
        patch(
            f"{PODS}/p/status?fieldManager=t",
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Failed"}},
            "apply",
        ),
    ),
    case(
        "apply: generateName",
        patch(
            f"{ME}?fieldManager=g",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "me-"}},
            "apply",
        ),
    ),
    case(
        "apply: to what is being deleted",
        post(CONFIG_MAPS, {**config_map("me"), "metadata": {"name": "me", "finalizers": ["example.com/f"]}}),
        delete(ME),
        apply(ME, applied(z="1")),
        patch(ME, {"metadata": {"finalizers": None}}),
    ),
    case("apply: force on the wrong verb", post(f"{CONFIG_MAPS}?force=true", config_map("me"))),
    case(
        "apply: a scale",
        post(DEPLOYMENTS, deployment("d")),
        patch(
            f"{DEP}/scale?fieldManager=h",
            {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 5}},
            "apply",
        ),
        get(DEP),
        apply(DEP, deployment("d", replicas=2), "one"),
        apply(DEP, deployment("d", replicas=2), "one", force=True),
        get(f"{DEP}/scale"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_applies_are_answered_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
