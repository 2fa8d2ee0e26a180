"""The rules of `spec.schedulingGates`, every one as a sentence, on both servers (KEP-3521 and KEP-3838).

They follow Kubernetes' own table tests: validation on creation and update, strategy, storage, printer, jobs.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.both import Both
from harness.objects import DEPLOYMENTS, JOBS, PODS, binding, deployment, gated, job, pod
from harness.scenario import TABLE, Case, Edited, Step, apply, case, cases_of, delete, get, patch, post, put

pytestmark = pytest.mark.real

P = f"{PODS}/p"
J = f"{JOBS}/j"


def gates(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def created(sentence: str, *names: str, **spec: Any) -> Case:
    return case(sentence, post(PODS, gated("p", *names, **spec)), get(P), get(P, TABLE))


def changed(sentence: str, before: dict[str, Any], change: Any) -> Case:
    """The same change as an update and as a merge patch, each on a pod of its own."""
    second = {**before, "metadata": {"name": "q"}}
    return case(
        sentence,
        post(PODS, before).named("made"),
        put(P, Edited("made", {"spec": change})),
        get(P),
        post(PODS, second),
        patch(f"{PODS}/q", {"spec": change}),
        get(f"{PODS}/q", TABLE),
    )


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


def on_node(expressions: list[Any] | None = None, fields: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    term = {"matchExpressions": expressions, "matchFields": fields}
    return required({key: value for key, value in term.items() if value is not None}, **more)


def required(*terms: Any, preferred: list[Any] | None = None) -> dict[str, Any]:
    affinity: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    if preferred is not None:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"affinity": {"nodeAffinity": affinity}}


def key(name: str, *values: str) -> dict[str, Any]:
    return {"key": name, "operator": "In", "values": list(values)}


NAMED = {"key": "metadata.name", "operator": "In", "values": ["foo"]}
OTHER = {"key": "metadata.name", "operator": "In", "values": ["bar"]}
PREFERRED = [{"weight": 5, "preference": {"matchExpressions": [key("disk", "ssd")]}}]
NEAR = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
        ]
    }
}
BAD_VALUE = {"key": "a", "operator": "In", "values": ["-bad-"]}
SELECTOR = {"nodeSelector": {"foo": "bar"}}
BOTH_PARTS = on_node([key("a", "x")], [NAMED])
DIRECTIVES = [
    changed("a selector may be added to a gated pod", gated("p", "g"), {"nodeSelector": {"foo": "bar"}}),
    changed(
        "a key may be added to the selector of a gated pod",
        gated("p", "g", **SELECTOR),
        {"nodeSelector": {"foo": "bar", "new": "x"}},
    ),
    changed("a selector may not be added to an ungated pod", pod("p"), {"nodeSelector": {"foo": "bar"}}),
    changed(
        "a key may not be added to the selector of an ungated pod",
        pod("p", **SELECTOR),
        {"nodeSelector": {"foo": "bar", "new": "x"}},
    ),
    changed(
        "a key may not leave the selector of a gated pod",
        gated("p", "g", nodeSelector={"foo": "bar", "b": "c"}),
        {"nodeSelector": {"b": None}},
    ),
    changed(
        "a key may not change in the selector of a gated pod",
        gated("p", "g", **SELECTOR),
        {"nodeSelector": {"foo": "new"}},
    ),
    changed("a selector may not leave a gated pod", gated("p", "g", **SELECTOR), {"nodeSelector": None}),
    changed("a key may not leave the selector of an ungated pod", pod("p", **SELECTOR), {"nodeSelector": None}),
    changed(
        "the last gate may go while a selector comes",
        gated("p", "g"),
        {"schedulingGates": None, "nodeSelector": {"foo": "bar"}},
    ),
    changed("an affinity may be added to a gated pod", gated("p", "g"), BOTH_PARTS),
    changed(
        "a required affinity may be added to an empty one", gated("p", "g", affinity={"nodeAffinity": {}}), BOTH_PARTS
    ),
    changed("a required affinity may be added to no node affinity", gated("p", "g", affinity={}), BOTH_PARTS),
    changed("an affinity may not be added to an ungated pod", pod("p"), BOTH_PARTS),
    changed("an affinity may be added while the gate goes", gated("p", "g"), {"schedulingGates": None, **BOTH_PARTS}),
    changed(
        "expressions and fields may be added to a term",
        gated("p", "g", **BOTH_PARTS),
        on_node([key("a", "x"), key("b", "y")], [NAMED, OTHER]),
    ),
    changed(
        "expressions may not be added to an ungated pod",
        pod("p", **BOTH_PARTS),
        on_node([key("a", "x"), key("b", "y")], [NAMED]),
    ),
    changed(
        "expressions may be added while the gate goes",
        gated("p", "g", **BOTH_PARTS),
        {"schedulingGates": None, **on_node([key("a", "x"), key("b", "y")], [NAMED])},
    ),
    changed(
        "a required affinity may not be taken away",
        gated("p", "g", **BOTH_PARTS),
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}},
    ),
    changed("an affinity may not be taken away", gated("p", "g", **BOTH_PARTS), {"affinity": None}),
    changed(
        "an expression may not be taken from a term",
        gated("p", "g", **on_node([key("a", "x"), key("b", "y")])),
        on_node([key("a", "x")]),
    ),
    changed(
        "a field may not be taken from a term",
        gated("p", "g", **BOTH_PARTS),
        required({"matchExpressions": [key("a", "x")]}),
    ),
    changed("an expression may not change", gated("p", "g", **BOTH_PARTS), on_node([key("a", "z")], [NAMED])),
    changed("a field may not change", gated("p", "g", **BOTH_PARTS), on_node([key("a", "x")], [OTHER])),
    changed(
        "expressions may not change their order",
        gated("p", "g", **on_node([key("a", "x"), key("b", "y")])),
        on_node([key("b", "y"), key("a", "x")]),
    ),
    changed(
        "a second term may not be added",
        gated("p", "g", **BOTH_PARTS),
        required({"matchExpressions": [key("a", "x")], "matchFields": [NAMED]}, {"matchExpressions": [key("c", "z")]}),
    ),
    changed(
        "a term may not be taken away",
        gated("p", "g", **required({"matchExpressions": [key("a", "x")]}, {"matchExpressions": [key("c", "z")]})),
        on_node([key("a", "x")]),
    ),
    changed("an empty term may not be filled", gated("p", "g", **required({})), on_node([key("a", "x")])),
    changed(
        "an empty term beside another may not be filled",
        gated("p", "g", **required({}, {"matchExpressions": [key("a", "x")]})),
        required({"matchExpressions": [key("b", "y")]}, {"matchExpressions": [key("a", "x")]}),
    ),
    changed(
        "preferred terms may be added",
        gated("p", "g", **BOTH_PARTS),
        on_node([key("a", "x")], [NAMED], preferred=PREFERRED),
    ),
    changed(
        "preferred terms may change",
        gated("p", "g", **on_node([key("a", "x")], preferred=PREFERRED)),
        on_node([key("a", "x")], preferred=[{"weight": 9, "preference": {"matchExpressions": [key("q", "w")]}}]),
    ),
    changed(
        "preferred terms may be taken away",
        gated("p", "g", **on_node([key("a", "x")], preferred=PREFERRED)),
        on_node([key("a", "x")], preferred=[]),
    ),
    changed(
        "preferred terms of an ungated pod may not change",
        pod("p", **on_node([key("a", "x")], preferred=PREFERRED)),
        on_node([key("a", "x")], preferred=[]),
    ),
    changed("a pod affinity may not be added", gated("p", "g"), {"affinity": NEAR}),
    changed(
        "a pod affinity may not be taken away", gated("p", "g", affinity=NEAR), {"affinity": {"podAffinity": None}}
    ),
    changed(
        "a pod anti-affinity may not change",
        gated("p", "g", affinity={"podAntiAffinity": NEAR["podAffinity"]}),
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "other", "labelSelector": {"matchLabels": {"a": "b"}}}
                    ]
                }
            }
        },
    ),
    changed(
        "a new bad label value is refused",
        gated("p", "g", **on_node([key("a", "x")])),
        on_node([key("a", "x"), BAD_VALUE]),
    ),
    changed(
        "a toleration may be added",
        gated("p", "g"),
        {
            "tolerations": [
                {"key": "k", "operator": "Exists"},
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                },
                {
                    "key": "node.kubernetes.io/unreachable",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                },
            ]
        },
    ),
    changed(
        "a toleration may not be taken away",
        gated("p", "g", tolerations=[{"key": "k", "operator": "Exists"}]),
        {"tolerations": []},
    ),
    changed("an image may change", gated("p", "g"), {"containers": [{"name": "main", "image": "other:2"}]}),
    changed(
        "a deadline may be set and shrink", gated("p", "g", activeDeadlineSeconds=50), {"activeDeadlineSeconds": 40}
    ),
    changed("a deadline may not grow", gated("p", "g", activeDeadlineSeconds=50), {"activeDeadlineSeconds": 60}),
    changed(
        "a deadline may not be taken away", gated("p", "g", activeDeadlineSeconds=50), {"activeDeadlineSeconds": None}
    ),
    changed(
        "a negative grace may become one",
        gated("p", "g", terminationGracePeriodSeconds=-1),
        {"terminationGracePeriodSeconds": 1},
    ),
    changed(
        "a grace may not change otherwise",
        gated("p", "g", terminationGracePeriodSeconds=9),
        {"terminationGracePeriodSeconds": 1},
    ),
    changed("a priority may not change", gated("p", "g"), {"priority": 10}),
    changed("a scheduler may not change", gated("p", "g"), {"schedulerName": "other"}),
    changed(
        "resources may not change",
        gated("p", "g"),
        {"containers": [{"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": "1"}}}]},
    ),
    changed(
        "spreading may not change",
        gated("p", "g"),
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
    ),
    changed(
        "containers may not be added",
        gated("p", "g"),
        {"containers": [{"name": "main", "image": "registry.example/app:1"}, {"name": "second", "image": "x"}]},
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


def job_change(sentence: str, before: dict[str, Any], change: Any, *between: Step) -> Case:
    return case(
        sentence, post(JOBS, before).named("made"), *between, patch(J, {"spec": {"template": {"spec": change}}}), get(J)
    )


NEW_GATES = {"schedulingGates": gates("one", "two")}
STARTED = patch(f"{J}/status", {"status": {"startTime": "2020-01-01T00:00:00Z", "active": 1}})
JOB_RULES = [
    job_change("the gates of a running job's template may not change", job("j"), NEW_GATES),
    job_change("the gates of a suspended job's template may change", job("j", suspend=True), NEW_GATES),
    job_change(
        "the gates of a suspended job's template may go",
        job("j", {"schedulingGates": gates("x")}, suspend=True),
        {"schedulingGates": None},
    ),
    job_change("the gates of a job that has started may not change", job("j", suspend=True), NEW_GATES, STARTED),
    job_change(
        "the gates may change while the job resumes",
        job("j", suspend=True),
        NEW_GATES,
        patch(J, {"spec": {"suspend": True}}),
    ),
    case(
        "the gates may change in the update that resumes the job",
        post(JOBS, job("j", suspend=True)),
        patch(J, {"spec": {"suspend": False, "template": {"spec": NEW_GATES}}}),
        get(J),
    ),
    job_change(
        "the selector of a suspended job's template may change", job("j", suspend=True), {"nodeSelector": {"a": "b"}}
    ),
    job_change("the selector of a running job's template may not change", job("j"), {"nodeSelector": {"a": "b"}}),
    job_change("the affinity of a suspended job's template may change", job("j", suspend=True), BOTH_PARTS),
    job_change(
        "the pod affinity of a suspended job's template may not change", job("j", suspend=True), {"affinity": NEAR}
    ),
    job_change(
        "the tolerations of a suspended job's template may change",
        job("j", suspend=True),
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
    ),
    job_change(
        "the image of a suspended job's template may not change",
        job("j", suspend=True),
        {"containers": [{"name": "main", "image": "new"}]},
    ),
    case(
        "the labels of a suspended job's template may change",
        post(JOBS, job("j", suspend=True)),
        patch(J, {"spec": {"template": {"metadata": {"labels": {"new": "x"}, "annotations": {"a": "b"}}}}}),
        get(J),
    ),
    case(
        "a bad gate in a suspended job's template is refused",
        post(JOBS, job("j", suspend=True)),
        patch(J, {"spec": {"template": {"spec": {"schedulingGates": gates("", "x")}}}}),
    ),
    case(
        "the gates of a cron job's template may change",
        post(
            "/apis/batch/v1/namespaces/{ns}/cronjobs",
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": "c"},
                "spec": {"schedule": "@daily", "jobTemplate": {"spec": job("x")["spec"]}},
            },
        ),
        patch(
            "/apis/batch/v1/namespaces/{ns}/cronjobs/c",
            {"spec": {"jobTemplate": {"spec": {"template": {"spec": NEW_GATES}}}}},
        ),
    ),
    case(
        "the gates of a deployment's template may change",
        post(DEPLOYMENTS, deployment("d")),
        patch(f"{DEPLOYMENTS}/d", {"spec": {"template": {"spec": NEW_GATES}}}),
        patch(
            f"{DEPLOYMENTS}/d",
            {"spec": {"template": {"spec": {"schedulingGates": [{"$patch": "delete", "name": "one"}]}}}},
            "strategic",
        ),
    ),
]
CASES = cases_of(CREATION, UPDATE, REMOVAL, APPLY, DIRECTIVES, STORAGE, JOB_RULES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_gate_keeps_its_rules(both: Both, case: Case) -> None:
    both.agree(case)
