"""The tolerations of a pod and of its RuntimeClass are merged as by a reference that compares all with all."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from embedded import Embedded, a_pod

PODS = "/api/v1/namespaces/t/pods"
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"

Toleration = dict[str, Any]


def covers(one: Toleration, other: Toleration) -> bool:
    """``isSuperset`` in ``pkg/util/tolerations`` of Kubernetes."""
    if one == other:
        return True
    operator, effect, limit_s = one.get("operator", "Equal"), one.get("effect"), one.get("tolerationSeconds")
    if one.get("key") != other.get("key") and ("key" in one or operator != "Exists"):
        return False
    if effect is not None and effect != other.get("effect"):
        return False
    if limit_s is not None and ("tolerationSeconds" not in other or other["tolerationSeconds"] > limit_s):
        return False
    return operator == "Exists" or (other.get("operator") == "Equal" and one.get("value") == other.get("value"))


def merged(tolerations: list[Toleration]) -> list[Toleration]:
    kept: list[Toleration] = []
    for i, each in enumerate(tolerations):
        later = (other for other in tolerations[i + 1 :] if other != each)
        if not any(covers(other, each) for other in (*kept, *later)):
            kept.append(each)
    return kept


@st.composite
def drawn_tolerations(draw: st.DrawFn) -> Toleration:
    """Valid ones. A missing operator means ``Equal``; Kubernetes does not take the two for equal."""
    found: Toleration = draw(
        st.sampled_from(
            (
                {"operator": "Exists"},
                {"key": "k", "operator": "Exists"},
                {"key": "k", "operator": "Equal", "value": "v"},
                {"key": "k", "operator": "Equal", "value": "w"},
                {"key": "k", "operator": "Equal"},
                {"key": "k", "value": "v"},
                {"key": "l", "value": "v"},
                {"key": "l", "operator": "Equal", "value": "v"},
            )
        )
    )
    effect = draw(st.sampled_from(("", "NoSchedule", "NoExecute", "NoExecute")))
    found = {**found, "effect": effect} if effect else found
    seconds = draw(st.sampled_from((None, -1, 0, 5, 6))) if effect == "NoExecute" else None
    return found if seconds is None else {**found, "tolerationSeconds": seconds}


def _identity(toleration: Toleration) -> tuple[Any, ...]:
    return tuple(toleration.get(field) for field in ("key", "operator", "value", "effect"))


EQUAL: Toleration = {"key": "k", "operator": "Equal", "value": "v"}
WITHOUT_OPERATOR: Toleration = {"key": "k", "value": "v"}


@settings(max_examples=200, deadline=None)
@example([EQUAL, WITHOUT_OPERATOR, EQUAL], [])
@given(st.lists(drawn_tolerations(), max_size=8), st.lists(drawn_tolerations(), max_size=3, unique_by=_identity))
def test_no_toleration_is_left_that_another_one_covers(own: list[Toleration], of_class: list[Toleration]) -> None:
    server = Embedded()
    made = server.post(CLASSES, {"metadata": {"name": "c"}, "handler": "h", "scheduling": {"tolerations": of_class}})
    assert made.status == 201, made.body
    without_class = server.post(PODS, a_pod("a", tolerations=own)).body["spec"].get("tolerations", [])
    with_class = server.post(PODS, a_pod("b", tolerations=own, runtimeClassName="c"))
    assert with_class.status == 201, with_class.body
    assert with_class.body["spec"].get("tolerations", []) == merged([*without_class, *of_class])
