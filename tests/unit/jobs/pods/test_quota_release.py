"""When pods release their quota: when they begin to terminate, or when they have ended."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.jobs.pods.quota_release import quota_in_use, release_of_pods
from headgate.jobs.settings import Release
from headgate.kube.feature_gates import FeatureGates, parse_feature_gates
from headgate.kube.timestamps import format_time

NOW_S = 1_700_000_000.0
FAST: Release = "OnTerminating"
SLOW: Release = "OnTerminal"


def a_pod(
    phase: str = "Running", ends_in_s: float | None = None, node: str = "n", gates: tuple[str, ...] = ()
) -> dict[str, Any]:
    """``ends_in_s``: where its deletion timestamp is, seen from now."""
    stamp = {} if ends_in_s is None else {"deletionTimestamp": format_time(NOW_S + ends_in_s)}
    spec = {"nodeName": node, "schedulingGates": [{"name": gate} for gate in gates]}
    return {"metadata": {"name": "p", **stamp}, "spec": spec, "status": {"phase": phase}}


def active(rule: Release, *pods: dict[str, Any]) -> bool:
    return quota_in_use(pods, rule, NOW_S)[0]


@pytest.mark.parametrize("rule", [FAST, SLOW])
def test_a_pod_that_runs_is_active_and_one_that_ended_is_not(rule: Release) -> None:
    assert active(rule, a_pod())
    assert not active(rule, a_pod("Succeeded"), a_pod("Failed"))


@pytest.mark.parametrize("phase", ["Running", "Pending", "Unknown"])
def test_fast_release_ignores_the_phase(phase: str) -> None:
    assert not active(FAST, a_pod(phase, ends_in_s=80))
    assert active(SLOW, a_pod(phase, ends_in_s=80))


def test_a_group_is_active_while_one_pod_does_not_terminate() -> None:
    assert active(FAST, a_pod(ends_in_s=80), a_pod())
    assert not active(FAST, a_pod(ends_in_s=80), a_pod(ends_in_s=80))


def test_slow_release_ends_at_the_deletion_timestamp() -> None:
    """Kueue adds the grace once more, and nobody looks then."""
    assert not active(SLOW, a_pod(ends_in_s=-1), a_pod("Succeeded"), a_pod("Failed"))
    assert not active(SLOW, a_pod(ends_in_s=0))
    assert active(SLOW, a_pod(ends_in_s=1))


def test_the_next_check_is_at_the_last_deletion_timestamp() -> None:
    assert quota_in_use([a_pod(ends_in_s=30), a_pod(ends_in_s=90)], SLOW, NOW_S) == (True, NOW_S + 90)
    assert quota_in_use([a_pod(ends_in_s=30), a_pod()], SLOW, NOW_S) == (True, None)
    assert quota_in_use([a_pod(ends_in_s=30)], FAST, NOW_S) == (False, None)


@pytest.mark.parametrize("rule", [FAST, SLOW])
def test_a_pod_that_never_runs_uses_no_quota(rule: Release) -> None:
    assert not active(rule, a_pod("Pending", gates=("kueue.x-k8s.io/admission",), node=""))
    assert not active(rule, a_pod("Pending", ends_in_s=30, node=""))
    assert active(rule, a_pod("Pending", gates=("example.com/other",), node=""))


def test_the_setting_has_precedence_over_the_feature_gate() -> None:
    off = parse_feature_gates("FastQuotaReleaseInPodIntegration=false")
    assert isinstance(off, FeatureGates)
    assert release_of_pods(FeatureGates(), {}) == FAST
    assert release_of_pods(off, {}) == SLOW
    assert release_of_pods(FeatureGates(), {"pod": SLOW}) == SLOW
    assert release_of_pods(off, {"pod": FAST}) == FAST
    assert release_of_pods(off, {"batch/job": FAST}) == SLOW
