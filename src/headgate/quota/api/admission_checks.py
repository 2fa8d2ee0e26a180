"""Admission checks of a workload: the required ones, their states, and the consequences.

Ready: when all checks are ready and quota is reserved, the workload is admitted. Retry: it is evicted and requeued, not
before the time that the check set. Rejected: it is deactivated. Every eviction resets all checks to Pending.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headgate.kube import conditions
from headgate.quota import names
from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.workload import Admission, AdmissionCheckState, Workload


def is_check_active(check: Mapping[str, Any]) -> bool:
    """Whether the condition Active of an AdmissionCheck is true."""
    return conditions.is_true((check.get("status") or {}).get("conditions"), "Active")


def required_checks(queue: ClusterQueue, admission: Admission | None) -> frozenset[str]:
    """The checks for the assigned flavors; before the assignment, the checks that apply to all flavors of the queue."""
    assigned = None if admission is None else {each for one in admission.pod_sets for each in one.flavors.values()}
    found = set()
    for name, flavors in queue.checks:
        check_flavors = flavors or queue.flavors
        if assigned & check_flavors if assigned is not None else check_flavors >= queue.flavors:
            found.add(name)
    return frozenset(found)


def synced_checks(workload: Workload, required: frozenset[str], now_s: float) -> tuple[AdmissionCheckState, ...] | None:
    """The states for exactly the required checks, sorted by name; None if the workload already has exactly these."""
    known = {each.name: each for each in workload.checks}
    if set(known) == required:
        return None
    return tuple(known.get(name) or AdmissionCheckState(name, since_s=now_s) for name in sorted(required))


def are_ready(checks: Iterable[AdmissionCheckState]) -> bool:
    return all(each.state == names.CHECK_READY for each in checks)


def are_satisfied(workload: Workload, required: frozenset[str]) -> bool:
    """Whether the workload has all required checks, and all are ready."""
    return required <= {each.name for each in workload.checks} and are_ready(workload.checks)


def in_state(checks: Iterable[AdmissionCheckState], state: str) -> list[AdmissionCheckState]:
    return sorted((each for each in checks if each.state == state), key=lambda each: each.name)


def describe(checks: list[AdmissionCheckState], state: str) -> str:
    listed = "; ".join(f'"{each.name}" ({each.message})' if each.message else f'"{each.name}"' for each in checks)
    return f"AdmissionCheck{'s' if len(checks) > 1 else ''} in {state} state: {listed}"


def retry_at_s(checks: Iterable[AdmissionCheckState]) -> float | None:
    """The time before which a check does not allow a retry; the latest, if there are several."""
    found = [
        each.since_s + each.requeue_after_s
        for each in checks
        if each.state == names.CHECK_RETRY and each.requeue_after_s is not None and each.since_s
    ]
    return max(found, default=None)


def reset_checks(checks: Iterable[AdmissionCheckState], now_s: float) -> tuple[AdmissionCheckState, ...]:
    """The checks after an eviction: all are pending, and a check that asked for a retry counts it."""
    return tuple(
        each
        if each.state == names.CHECK_PENDING
        else msgspec.structs.replace(
            each,
            state=names.CHECK_PENDING,
            message=f"Reset to Pending after eviction. Previously: {each.state}",
            since_s=now_s,
            retries=each.retries + 1 if each.state == names.CHECK_RETRY else 0,
        )
        for each in checks
    )
