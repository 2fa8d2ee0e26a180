"""Metrics that follow each change of a workload equal a recount of all workloads."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.metrics import JobMetrics
from headgate.quota.api.workload import Workload, read_workload
from headgate.quota.metrics.counters import UnadmittedWorkloads
from kueue_builders import a_condition, a_workload, reserved

GATES = ("", "x.io/a", "x.io/b")
NAMES = ("a", "b", "c", "d")
STATUSES: tuple[dict[str, Any], ...] = (
    {},
    {"conditions": [a_condition("QuotaReserved", False, "WaitingForQuota")]},
    {
        "conditions": [
            a_condition("QuotaReserved", False, "AdmissionGated"),
            a_condition("Admitted", False, "NoReservation"),
        ]
    },
    {**reserved(cpu=1), "conditions": reserved(cpu=1)["conditions"][:1]},
    reserved(cpu=1),
    {**reserved(cpu=1), "conditions": [a_condition("Finished", reason="Succeeded")]},
)
LED = {"ns/lq": "cq", "ns/other": "cq"}


def a_read(name: str, queue: str, status: dict[str, Any]) -> Workload:
    found = read_workload(a_workload(name, queue=queue, status=status))
    assert isinstance(found, Workload)
    return found


def expected(known: dict[str, Workload]) -> dict[str, int]:
    """By the ClusterQueue alone, counted anew."""
    found: Counter[str] = Counter()
    for each in known.values():
        if not (each.admission or LED.get(each.queue_key)):
            continue
        if each.is_finished:
            found["finished"] += 1
        elif not each.has("Admitted"):
            reserved_now = each.conditions.get("QuotaReserved")
            cause = "PendingEvaluation" if reserved_now is None else "" if reserved_now.is_true else reserved_now.reason
            found[f"unadmitted {cause}"] += 1
    return dict(found)


def told(roll: UnadmittedWorkloads) -> dict[str, int]:
    found: Counter[str] = Counter()
    for sample in roll.samples(lambda key: LED.get(key, "")):
        labels = dict(sample.labels)
        assert sample.value > 0
        if sample.name == "kueue_finished_workloads":
            found["finished"] += int(sample.value)
        elif sample.name == "kueue_unadmitted_workloads":
            found[f"unadmitted {labels['underlying_cause']}"] += int(sample.value)
    return dict(found)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(NAMES),
            st.sampled_from(("lq", "other", "nowhere")),
            st.none() | st.sampled_from(STATUSES),
        ),
        max_size=20,
    )
)
def test_pending_and_finished_workloads_equal_a_recount(steps: list[tuple[str, str, Any]]) -> None:
    roll, known = UnadmittedWorkloads(), dict[str, Workload]()
    for name, queue, status in steps:
        if status is None:
            known.pop(name, None)
        else:
            known[name] = a_read(name, queue, status)
        roll.put(name, known.get(name))
        assert told(roll) == expected(known)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(NAMES), st.sampled_from(("", "x.io/a", "x.io/b")), st.integers(0, 9), st.integers(0, 3)
        ),
        max_size=20,
    )
)
def test_gated_jobs_terminating_pods_and_their_oldest_equal_a_recount(steps: list[tuple[str, str, int, int]]) -> None:
    metrics = JobMetrics()
    gates: dict[str, tuple[str, int]] = {}
    terminating: dict[str, int] = {}
    for name, gate, created_s, began_s in steps:
        before = gates.pop(name, None)
        if gate:  # a job keeps the moment of its creation
            gates[name] = gate, before[1] if before is not None and before[0] == gate else created_s
        metrics.job_gated(name, "Job", gate, created_s)
        terminating.pop(name, None)
        if began_s:
            terminating[name] = began_s
            metrics.pod_terminating(name, began_s)
        else:
            metrics.pod_gone(name)
    lines = metrics.page(100.0).decode().splitlines()
    shown = {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}
    for gate in ("x.io/a", "x.io/b"):
        there = [created for each, created in gates.values() if each == gate]
        labels = f'{{kind="Job",gate="{gate}"}}'
        assert shown.get(f"headgate_gated_jobs{labels}", 0) == len(there)
        assert shown.get(f"headgate_gated_jobs_oldest_seconds{labels}") == (100 - min(there) if there else None)
    assert shown["headgate_terminating_released_pods"] == len(terminating)
    oldest = 100 - min(terminating.values()) if terminating else 0
    assert shown["headgate_terminating_released_pods_oldest_seconds"] == oldest
