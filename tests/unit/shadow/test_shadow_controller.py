"""The controller of shadow mode: lists are facts, later events are compared in order, and nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.framework.discovery import DiscoveredKind, DiscoveredKinds
from headgate.controllers.framework.reconcile import Controller, Done, Enqueue
from headgate.kube.api_resources import NAMESPACES, PODS, APIResource
from headgate.quota.engine import QuotaSettings
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.shadow.comparison import DecisionComparison
from headgate.shadow.controller import ShadowController
from headgate.shadow.quota_shadow import QuotaShadow
from kueue_builders import a_cluster_queue, a_flavor, a_local_queue, a_workload, reserved

Object = dict[str, Any]

NOW_S = 1_800_000_000.0
KINDS = (RESOURCE_FLAVORS, CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS)


def stored(obj: Object, revision: int) -> Object:
    given = {"uid": f"uid-{obj['metadata']['name']}", "resourceVersion": str(revision)}
    return {**obj, "metadata": {**given, **obj["metadata"], "resourceVersion": str(revision)}}


def _served(*resources: APIResource) -> DiscoveredKinds:
    rows = {("kueue.x-k8s.io/v1beta2", each.plural): DiscoveredKind(each, "", frozenset()) for each in resources}
    return DiscoveredKinds(by_name=rows)


def reconciled(controller: Controller, now_s: float) -> Done:
    """The result; a controller of shadow mode yields no effect."""
    with pytest.raises(StopIteration) as ended:
        next(controller.reconcile("step", now_s))
    result = ended.value.value
    assert isinstance(result, Done)
    return result


def a_controller() -> tuple[ShadowController, list[DecisionComparison]]:
    compared: list[DecisionComparison] = []
    controller = ShadowController(QuotaShadow(QuotaSettings(), compared.append, 30.0), hold_s=1.0)
    listed = [
        (NAMESPACES, {"metadata": {"name": "ns"}}),
        (RESOURCE_FLAVORS, a_flavor()),
        (CLUSTER_QUEUES, a_cluster_queue("cq", {"default": {"cpu": 1}})),
        (LOCAL_QUEUES, a_local_queue()),
        (WORKLOADS, a_workload("running", status=reserved(cpu=1))),
    ]
    list(controller.discovered(_served(*KINDS)))
    for revision, (resource, obj) in enumerate(listed):
        list(controller.applied(resource, stored(obj, 10 + revision), NOW_S))
    for resource in (*KINDS[:-1], NAMESPACES, PODS):
        list(controller.synced(resource, "15", NOW_S))
    assert reconciled(controller, NOW_S).enqueues == [Enqueue("step", 1.0)], "a list has not been delivered"
    list(controller.synced(KINDS[-1], "15", NOW_S))
    reconciled(controller, NOW_S)
    return controller, compared


def test_what_the_lists_show_is_not_compared() -> None:
    _, compared = a_controller()
    assert compared == []


def test_an_event_is_held_until_the_other_watches_have_caught_up() -> None:
    """The watch of Workloads is ahead: the queue had grown before the admission."""
    controller, compared = a_controller()
    list(controller.applied(WORKLOADS, stored(a_workload("new"), 20), NOW_S + 1))
    admitted = stored(a_workload("new", status=reserved(cpu=1)), 22)
    assert list(controller.applied(WORKLOADS, admitted, NOW_S + 1)) == [Enqueue("step", 1.0)]
    grown = stored(a_cluster_queue("cq", {"default": {"cpu": 2}}), 21)
    list(controller.applied(CLUSTER_QUEUES, grown, NOW_S + 1.5))
    reconciled(controller, NOW_S + 1.9)
    assert compared == []
    reconciled(controller, NOW_S + 3)
    assert [each.outcome for each in compared] == ["same"]


def test_it_is_called_again_when_the_next_event_or_decision_is_due() -> None:
    controller, compared = a_controller()
    grown = stored(a_cluster_queue("cq", {"default": {"cpu": 2}}), 20)
    list(controller.applied(CLUSTER_QUEUES, grown, NOW_S))
    list(controller.applied(WORKLOADS, stored(a_workload("new"), 21), NOW_S))
    (again,) = reconciled(controller, NOW_S + 2).enqueues
    assert again.after_s == 30.0
    reconciled(controller, NOW_S + 32)
    assert [each.outcome for each in compared] == ["only_headgate"]
    assert reconciled(controller, NOW_S + 33).enqueues == []


def test_a_deletion_of_an_earlier_object_of_the_name_changes_nothing() -> None:
    controller, compared = a_controller()
    list(controller.removed(WORKLOADS, "ns", "running", "another-uid", NOW_S))
    list(controller.applied(WORKLOADS, stored(a_workload("new"), 21), NOW_S))
    reconciled(controller, NOW_S + 2)
    assert reconciled(controller, NOW_S + 40).enqueues == []
    assert compared == [], "the running workload still holds the quota"
