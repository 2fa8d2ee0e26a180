"""What may change on a gated pod and on no other: node selector and affinity, tightened only (KEP-3838)."""

from __future__ import annotations

import pytest

from harness.objects import gated, pod
from harness.request_cases import Case, cases_of
from harness.server_pair import ServerPair
from real.gate_cases import (
    BAD_VALUE,
    BOTH_PARTS,
    NAMED,
    NEAR,
    OTHER,
    PREFERRED,
    SELECTOR,
    changed,
    key,
    on_node,
    required,
)

pytestmark = pytest.mark.real


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
CASES = cases_of(DIRECTIVES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_gate_keeps_its_rules(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
