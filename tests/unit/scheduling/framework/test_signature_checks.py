"""Errors of a plugin that are found before it is called: async methods, other parameters, missing members."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from headgate.kube.api_resources import CONFIG_MAPS, NODES, PODS, APIResource
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.framework.interface import READS_NODE
from headgate.scheduling.framework.signature_checks import problems
from headgate.scheduling.plugins.node_affinity import NodeAffinity
from headgate.scheduling.plugins.priority_sort import PrioritySort
from headgate.scheduling.plugins.taint_toleration import TaintToleration
from headgate.scheduling.plugins.volume_binding import VolumeBinding


class Right:
    name = "Right"
    reads = READS_NODE
    annotations = ("example.com/a",)
    watched: ClassVar = {CONFIG_MAPS: ("data",)}

    def pre_enqueue(self, pod: Any, further: int = 0) -> None:
        """More parameters may be there if they have defaults."""

    def filter(self, *args: Any) -> None: ...

    def reasons(self, shape: Any, /) -> list[Any]:
        return []

    @staticmethod
    def permit(pod: Any, node_name: str) -> None: ...

    def applied(self, resource: Any, wire: Any) -> Any:
        yield from ()

    def removed(self, resource: Any, namespace: str, name: str) -> Any:
        return ()


@pytest.mark.parametrize(
    "built_in", [NodeAffinity(), TaintToleration(), PrioritySort(), VolumeBinding(Cluster(), 600.0)]
)
def test_built_in_plugins_are_right(built_in: Any) -> None:
    assert problems(built_in, built_in.name) == []


def test_a_plugin_of_others_that_follows_the_contract_is_right() -> None:
    assert problems(Right(), "Right") == []


async def later(self: Any, *args: Any) -> None: ...


async def later_and_later(self: Any, *args: Any) -> Any:
    yield None


def one_by_one(self: Any, *args: Any) -> Any:
    yield None


def a_plugin(**members: Any) -> Any:
    return type("Wrong", (), {"name": "Wrong", **members})()


METHODS = {
    "pre_enqueue": "(pod)",
    "order_key": "(pod, since_s)",
    "pre_filter": "(pod, matrix)",
    "pre_score": "(pod, matrix)",
    "post_filter": "(pod, unplaced, handle)",
    "permit": "(pod, node_name)",
    "pre_bind": "(pod, node_name)",
    "bind": "(pod, node_name)",
    "post_bind": "(pod, node_name)",
    "key": "(pod)",
    "stamp": "(shape, matrix)",
    "wakers": "(shape)",
    "released": "()",
}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_is_async_is_refused(method: str) -> None:
    for wrong in (later, later_and_later):
        (problem,) = problems(a_plugin(**{method: wrong}), "Wrong")
        assert problem == f"{method} is async: the scheduler calls {method}{METHODS[method]} and does not await it"


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_yields_is_refused(method: str) -> None:
    (problem,) = problems(a_plugin(**{method: one_by_one}), "Wrong")
    assert problem == f"{method} yields: {method}{METHODS[method]} must return its answer"


@pytest.mark.parametrize("method", METHODS)
def test_a_method_with_the_wrong_signature_is_rejected(method: str) -> None:
    def many(self: Any, a: Any, b: Any, c: Any, d: Any) -> None: ...

    (problem,) = problems(a_plugin(**{method: many}), "Wrong")
    assert problem == f"{method}(a: 'Any', b: 'Any', c: 'Any', d: 'Any') -> 'None' cannot be called as " + (
        f"{method}{METHODS[method]}"
    )


def test_parameters_that_have_to_be_named_are_refused() -> None:
    def named(self: Any, *, pod: Any) -> None: ...

    (problem,) = problems(a_plugin(pre_enqueue=named), "Wrong")
    assert "cannot be called as pre_enqueue(pod)" in problem


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"name": "Other"}, "its attribute name is 'Other', and must be 'Wrong'"),
        ({"name": None}, "its attribute name is None, and must be 'Wrong'"),
        ({"pre_enqueue": True}, "pre_enqueue is not a method"),
        ({"annotations": "example.com/a"}, "its attribute annotations is 'example.com/a', and must be a tuple"),
        ({"annotations": (1,)}, "its attribute annotations is (1,), and must be a tuple"),
        ({"reads": 3}, "its attribute reads is 3, and must be READS_NODE or READS_PODS"),
        ({"reads": True}, "its attribute reads is True"),
        ({"score": lambda self, shape, matrix, rows, state: None}, "it has score but no reads"),
        ({"reserve": lambda self, pod, node_name: None}, "it has reserve but no unreserve"),
        ({"awaited": lambda self, pod, node_name: None, "timeout_s": 1.0}, "it has awaited but no pre_bind"),
        ({"normalize": lambda self, raw, scale: raw, "score": Right.filter, "reads": 1}, "has normalize but no scale"),
        ({"watched": [CONFIG_MAPS], "applied": later, "removed": later}, "its attribute watched is [APIResource("),
        (
            {"watched": {"maps": ()}, "applied": later, "removed": later},
            "its attribute watched is {'maps': ()}, and must",
        ),
    ],
)
def test_attributes_that_are_wrong_or_missing_are_named(members: dict[str, Any], expected: str) -> None:
    found = problems(a_plugin(**members), "Wrong")
    assert any(expected in each for each in found), found


def test_a_plugin_that_watches_must_hear_of_changes_and_removals() -> None:
    found = problems(a_plugin(watched={CONFIG_MAPS: "data"}), "Wrong")
    assert "it has watched but no applied" in found
    assert "it has watched but no removed" in found
    assert any("has 'data' for configmaps, and must have a tuple of fields" in each for each in found)


def heard(self: Any, *args: Any) -> Any:
    return ()


def watching(resource: Any, *fields: Any) -> list[str]:
    return problems(a_plugin(watched={resource: fields}, applied=heard, removed=heard), "Wrong")


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (PODS, "pods cannot be watched by a plugin"),
        (NODES, "nodes cannot be watched by a plugin"),
        (APIResource("", "v2", "pods", namespaced=True), "pods cannot be watched by a plugin"),
        (APIResource("", "v1", "ConfigMap", namespaced=True), "plural must be the lower-case plural"),
        (APIResource("apps", "v1", "deployments/status", namespaced=True), "plural must be the lower-case plural"),
        (APIResource("", "v1", "", namespaced=True), "plural must be the lower-case plural"),
        (APIResource("apps/v1", "v1", "deployments", namespaced=True), "group must be the name of an API group"),
        (APIResource("", "", "configmaps", namespaced=True), "version must be a version"),
        (APIResource("batch", "batch/v1", "jobs", namespaced=True), "version must be a version"),
        (APIResource("batch", "v1", "jobs", namespaced="yes"), "namespaced must be True or False"),  # type: ignore[arg-type]  # the very thing that is tested
    ],
    ids=str,
)
def test_a_kind_that_cannot_be_watched_is_refused(resource: APIResource, expected: str) -> None:
    (problem,) = watching(resource)
    assert expected in problem
    assert repr(resource) in problem


@pytest.mark.parametrize("field", ["", ".", "spec.", ".spec", "spec..a", "spec.items[0].name", "spec.*", "a b"])
def test_a_field_that_cannot_be_picked_is_refused(field: str) -> None:
    (problem,) = watching(CONFIG_MAPS, field)
    assert f"has the field {field!r} for configmaps" in problem


def test_kinds_of_others_and_their_fields_may_be_watched() -> None:
    assert watching(APIResource("example.com", "v1beta2", "foo-bars", namespaced=False), "spec", "status.x-y_z") == []
    assert watching(APIResource("metrics.k8s.io", "v1", "nodes", namespaced=False)) == []
