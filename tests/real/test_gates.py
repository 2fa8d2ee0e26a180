"""The rules of `spec.schedulingGates`, every one as a sentence, on both servers: creation, update, removal, storage.

They follow Kubernetes' own table tests (KEP-3521). What may be tightened while a pod is gated is in
`test_gates_directives.py`, gates in the templates of jobs in `test_gates_jobs.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import DEPLOYMENTS, JOBS, PODS, binding, deployment, gated, job, pod
from harness.request_cases import TABLE, Case, apply, case, cases_of, delete, get, patch, post
from harness.server_pair import ServerPair
from real.gate_cases import P, changed, gates

pytestmark = pytest.mark.real


def created(sentence: str, *names: str, **spec: Any) -> Case:
    return case(sentence, post(PODS, gated("p", *names, **spec)), get(P), get(P, TABLE))


CREATION = [
    case("a pod without gates has no condition", post(PODS, pod("p")), post(PODS, pod("q", schedulingGates=[]))),
    created("a gated pod is born with the gated condition", "foo", "bar"),
    created("an empty gate name gives two causes", "foo", ""),
    created("a gate name with a newline is refused", "foo", "\nbar"),
    created("a repeated gate is a duplicate", "foo", "bar", "bar"),
    created("every repeat is reported at its own index", "foo", "bar", "foo", "baz", "foo", "bar"),
    created("a gate name may have a prefix", "example.com/hold", "a.b.example/C_d.e-f"),
    created("a gate name with two slashes is no label key", "a/b/c"),
    created("a gate name needs a prefix before its slash", "/x"),
    created("a gate name needs a name after its slash", "example.com/"),
    created("a gate prefix in capitals is refused", "Ex.com/x"),
    created("a gate name of 63 is the longest", "x" * 63, "example.com/" + "y" * 63),
    created("a gate name of 64 is too long", "x" * 64),
    created("a gate prefix of 254 is too long", "p" * 254 + "/x"),
    created("a gate name ends with a letter or a digit", "a-", "b_", "c."),
    created("a gate name may not begin with a dash", "-a"),
    created("gates and a node name exclude each other", "foo", nodeName="node-1"),
    created("gates and an empty node name go together", "foo", nodeName=""),
    created("very many gates are allowed", *(f"gate-{number}" for number in range(60))),
    case(
        "a gate without a name is refused",
        post(PODS, pod("p", schedulingGates=[{}])),
        post(PODS, pod("q", schedulingGates=[None])),
    ),
    case(
        "the status of a creation is ignored",
        post(
            PODS,
            {
                **gated("p", "foo"),
                "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]},
            },
        ),
    ),
    case(
        "a gate in a template is checked as in a pod",
        post(
            DEPLOYMENTS,
            deployment(
                "d",
                template={
                    "metadata": {"labels": {"app": "a"}},
                    "spec": {**pod("x")["spec"], "schedulingGates": gates("foo", "", "foo")},
                },
            ),
        ),
        post(JOBS, job("j", {"schedulingGates": gates("a/b/c")})),
    ),
    case(
        "a gate in a template may stand beside no node name",
        post(
            DEPLOYMENTS,
            deployment(
                "d",
                template={
                    "metadata": {"labels": {"app": "a"}},
                    "spec": {**pod("x")["spec"], "schedulingGates": gates("foo"), "nodeName": "n"},
                },
            ),
        ),
    ),
    case(
        "unknown fields beside a gate are told",
        post(f"{PODS}?fieldValidation=Strict", pod("p", schedulingGates=[{"name": "foo", "odd": 1}])),
        post(f"{PODS}?fieldValidation=Warn", pod("p", schedulingGates=[{"name": "foo", "odd": 1}])),
    ),
    case(
        "gates in a dry run",
        post(f"{PODS}?dryRun=All", gated("p", "foo")),
        post(f"{PODS}?dryRun=All", gated("p", "")),
        get(P),
    ),
]
UPDATE = [
    changed("a gate may not be added to an ungated pod", pod("p"), {"schedulingGates": gates("foo")}),
    changed("a gate may not be renamed", gated("p", "foo"), {"schedulingGates": gates("bar")}),
    changed("all gates may not be exchanged for another", gated("p", "foo", "bar"), {"schedulingGates": gates("baz")}),
    changed("a gate may not be added to others", gated("p", "foo"), {"schedulingGates": gates("foo", "bar")}),
    changed("a gate may not be added in front", gated("p", "foo"), {"schedulingGates": gates("bar", "foo")}),
    changed("one of two gates may be deleted", gated("p", "foo", "bar"), {"schedulingGates": gates("bar")}),
    changed("all gates may be deleted", gated("p", "foo", "bar"), {"schedulingGates": []}),
    changed("gates may be set to null", gated("p", "foo", "bar"), {"schedulingGates": None}),
    changed("gates may change their order", gated("p", "foo", "bar"), {"schedulingGates": gates("bar", "foo")}),
    changed("gates may stay as they are", gated("p", "foo"), {"schedulingGates": gates("foo")}),
    changed("a gate may not be repeated by an update", gated("p", "foo"), {"schedulingGates": gates("foo", "foo")}),
    changed("an empty gate may not be added", gated("p", "foo"), {"schedulingGates": gates("foo", "")}),
    case(
        "a gate may not come back",
        post(PODS, gated("p", "foo")),
        patch(P, {"spec": {"schedulingGates": None}}),
        patch(P, {"spec": {"schedulingGates": gates("foo")}}),
        get(P),
    ),
    case(
        "two new gates are two errors",
        post(PODS, gated("p", "foo")),
        patch(P, {"spec": {"schedulingGates": gates("x", "y")}}).in_any_order(),
    ),
    case(
        "removing the gates leaves the condition alone",
        post(PODS, gated("p", "foo")),
        patch(P, {"spec": {"schedulingGates": None}}),
        get(P),
        get(P, TABLE),
    ),
    changed("a node name may not be set by an update", gated("p", "foo"), {"nodeName": "node-1"}),
    changed(
        "a node name may not be set while the gate goes",
        gated("p", "foo"),
        {"schedulingGates": [], "nodeName": "node-1"},
    ),
]
REMOVAL = [
    case(f"a gate is removed {sentence}", post(PODS, gated("p", "foo", "bar")), patch(P, body, kind), get(P))
    for sentence, body, kind in (
        ("by a json patch of the list", [{"op": "remove", "path": "/spec/schedulingGates"}], "json"),
        ("by a json patch of one item", [{"op": "remove", "path": "/spec/schedulingGates/0"}], "json"),
        (
            "by a json patch that tests first",
            [
                {"op": "test", "path": "/spec/schedulingGates/1/name", "value": "bar"},
                {"op": "remove", "path": "/spec/schedulingGates/1"},
            ],
            "json",
        ),
        (
            "by a json patch, unless its test fails",
            [
                {"op": "test", "path": "/spec/schedulingGates/1/name", "value": "foo"},
                {"op": "remove", "path": "/spec/schedulingGates/1"},
            ],
            "json",
        ),
        ("by a json patch, unless it is not there", [{"op": "remove", "path": "/spec/schedulingGates/7"}], "json"),
        ("by a merge patch to null", {"spec": {"schedulingGates": None}}, "merge"),
        ("by a merge patch to a shorter list", {"spec": {"schedulingGates": gates("bar")}}, "merge"),
        ("by a strategic deletion", {"spec": {"schedulingGates": [{"$patch": "delete", "name": "foo"}]}}, "strategic"),
        ("by a strategic null", {"spec": {"schedulingGates": None}}, "strategic"),
        (
            "by a strategic replacement",
            {"spec": {"schedulingGates": [{"$patch": "replace"}, {"name": "bar"}]}},
            "strategic",
        ),
        (
            "by a strategic deletion of another, so not at all",
            {"spec": {"schedulingGates": [{"$patch": "delete", "name": "none"}]}},
            "strategic",
        ),
        (
            "by a strategic patch that names a new one, so not at all",
            {"spec": {"schedulingGates": gates("new")}},
            "strategic",
        ),
        (
            "with the uid of another pod, so not at all",
            {
                "metadata": {"uid": "00000000-0000-0000-0000-000000000000"},
                "spec": {"schedulingGates": [{"$patch": "delete", "name": "foo"}]},
            },
            "strategic",
        ),
        (
            "together with an annotation",
            {
                "metadata": {"annotations": {"headgate.dev/admitted": "{}"}},
                "spec": {"schedulingGates": [{"$patch": "delete", "name": "foo"}]},
            },
            "strategic",
        ),
    )
]
APPLY = [
    case(
        "a gate goes when its applier drops it",
        apply(P, gated("p", "foo", "bar"), "one"),
        apply(P, gated("p", "bar"), "one"),
        apply(P, pod("p"), "one"),
        get(P),
    ),
    case(
        "a gate of two appliers stays until both drop it",
        apply(P, gated("p", "foo"), "one"),
        apply(P, gated("p", "foo"), "two"),
        apply(P, pod("p"), "one"),
        apply(P, pod("p"), "two"),
        get(P),
    ),
    case(
        "an applier may not add a gate",
        apply(P, gated("p", "foo"), "one"),
        apply(P, gated("p", "foo", "bar"), "two"),
        get(P),
    ),
    case(
        "a gate is owned by name",
        post(f"{PODS}?fieldManager=maker", gated("p", "example.com/hold", "foo")),
        patch(
            f"{P}?fieldManager=lifter",
            {"spec": {"schedulingGates": [{"$patch": "delete", "name": "foo"}]}},
            "strategic",
        ),
        get(P),
    ),
]
STORAGE = [
    case(
        "a gated pod cannot be bound",
        post(PODS, gated("p", "foo")),
        post(f"{P}/binding", binding("p")),
        post("/api/v1/namespaces/{ns}/bindings", binding("p")),
        get(P),
    ),
    case(
        "a pod is bound once its last gate is gone",
        post(PODS, gated("p", "foo", "bar")),
        patch(P, {"spec": {"schedulingGates": gates("bar")}}),
        post(f"{P}/binding", binding("p")),
        patch(P, {"spec": {"schedulingGates": None}}),
        post(f"{P}/binding", binding("p")),
        get(P),
        get(P, TABLE),
    ),
    case("a pod without gates can be bound", post(PODS, pod("p")), post(f"{P}/binding", binding("p")), get(P)),
    case(
        "a wrong name is told before the gate",
        post(PODS, gated("p", "foo")),
        post(f"{P}/binding", binding("q")),
        post(f"{P}/binding", {**binding("p"), "target": {}}),
    ),
    case(
        "a wrong uid is told before the gate",
        post(PODS, gated("p", "foo")),
        post(f"{P}/binding", binding("p", uid="00000000-0000-0000-0000-000000000000")),
    ),
    case("a gated pod is deleted at once", post(PODS, gated("p", "foo")), delete(P), get(P)),
    case(
        "a gated pod is evicted",
        post(PODS, gated("p", "foo")),
        post(f"{P}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}),
        get(P),
    ),
    case(
        "the condition can be overwritten and nothing restores it",
        post(PODS, gated("p", "foo")),
        patch(f"{P}/status", {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}, "strategic"),
        get(P, TABLE),
        patch(P, {"metadata": {"labels": {"a": "b"}}}),
        get(P, TABLE),
    ),
    case(
        "lists and tables show who is gated",
        post(PODS, gated("p", "foo")),
        post(PODS, pod("q")),
        get(PODS, TABLE),
        get(f"{PODS}?fieldSelector=status.phase=Pending", TABLE),
    ),
]
CASES = cases_of(CREATION, UPDATE, REMOVAL, APPLY, STORAGE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_gate_keeps_its_rules(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
