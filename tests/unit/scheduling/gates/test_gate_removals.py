"""Patches that remove the queue gate: which response belongs to which patch."""

from __future__ import annotations

import pytest

from clusters import a_pod
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.framework.effects import WriteResult
from headgate.scheduling.gates.gate_removals import GateRemovals


def the_pod() -> PodInfo:
    pod = read_pod(a_pod("web"), ShapeTable())
    assert isinstance(pod, PodInfo)
    return pod


def due(removals: GateRemovals, now_s: float) -> list[str]:
    return [each.stamp for each in removals.due(now_s)]


@pytest.mark.parametrize("result", WriteResult)
def test_the_response_to_a_patch_that_the_watch_has_shown_is_not_taken_for_that_of_the_next(
    result: WriteResult,
) -> None:
    pod, removals = the_pod(), GateRemovals()
    assert removals.begin(pod, "small", 0.0) is not None
    removals.observed(pod.uid)
    assert not removals.is_settled(pod.uid)
    assert removals.begin(pod, "large", 1.0) is None
    assert removals.is_open(pod.uid)
    assert removals.begin(pod, "larger", 2.0) is None
    assert not removals.answered(pod.uid, result, "", 3.0)
    assert not removals.is_settled(pod.uid)
    assert due(removals, 3.0) == ["larger"]
    assert removals.answered(pod.uid, WriteResult.REFUSED, "no", 4.0)
    assert removals.refusal(pod.uid) == "no"
    assert removals.is_settled(pod.uid)


def test_a_patch_that_was_never_sent_ends_with_its_pod() -> None:
    pod, removals = the_pod(), GateRemovals()
    removals.begin(pod, "small", 0.0)
    removals.observed(pod.uid)
    removals.begin(pod, "large", 1.0)
    removals.forget(pod.uid)
    assert not removals.answered(pod.uid, WriteResult.DONE, "", 2.0)
    assert due(removals, 99.0) == []
    assert removals.is_settled(pod.uid)
