"""When a pod whose container is a process counts as ready."""

from __future__ import annotations

from harness.process_kubelet import Readiness

PROBE = {"periodSeconds": 5, "failureThreshold": 3}


def test_a_ready_pod_is_not_ready_after_as_many_failures_in_a_row_as_the_probe_allows() -> None:
    readiness, shown = Readiness(PROBE), []
    for succeeded in (False, True, False, False, True, False, False, False, True):
        readiness.record(succeeded)
        shown.append(readiness.is_ready)
    assert shown == [False, True, True, True, True, True, True, False, True]


def test_a_ready_pod_is_probed_as_often_as_its_probe_says() -> None:
    readiness = Readiness(PROBE)
    assert readiness.pause_s() < 1
    readiness.record(True)
    assert readiness.pause_s() == 5
