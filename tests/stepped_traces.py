"""A trace for the comparison of a simulation with a cluster: 200 jobs with gates, gangs, preemptions and machines.

Arrivals are minutes apart. What a step causes (a machine boots, a victim stops) is over before the next step, so the
order of all decisions is defined; :func:`check_spacing` proves it from the journal. Times in the API are whole seconds,
and a test is faster than that: so each job has a priority of its own, and no decision depends on the age of pods. The
older of two jobs has the higher priority, and only urgent jobs preempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from harness.stepped_cluster import STIMULI
from headgate.simulate.random_numbers import RandomNumbers
from headgate.simulate.settings import Settings
from headgate.simulate.simulation import JournalEntry
from headgate.simulate.trace import TraceJob
from simulated_clusters import volcano_queue

Object = dict[str, Any]

JOBS = 200
SEED = 2
NODE_CPU = 4
LIMITS = {"research": 6, "batch": 10, "gangs": 8}
SIZES = {"research": 1, "batch": 2, "gangs": 2}
"""All pods of a queue have the same size, so that the end of one admits at most one unit."""
SPACING_S = 900.0
SETTLED_S = 60.0
NEVER_S = 1e9
URGENT = 1000


def priority_classes() -> list[Object]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": job.priority_class},
            "value": JOBS - number + URGENT * (job.preemption_policy == ""),
            "preemptionPolicy": job.preemption_policy or "PreemptLowerPriority",
        }
        for number, job in enumerate(jobs())
    ]


def queues() -> list[Object]:
    return [volcano_queue(name, cpu=cpu) for name, cpu in LIMITS.items()]


def settings() -> Settings:
    """A model of Karpenter that keeps its machines: in a test nothing may depend on how long it takes."""
    group = {
        "name": "pool",
        "consolidateAfterSeconds": NEVER_S,
        "machineTypes": [{"name": "four", "resources": {"cpu": str(NODE_CPU), "memory": "32Gi"}}],
    }
    autoscaler = {"model": "karpenter", "bootSeconds": 0, "batchIdleSeconds": 0.5, "groups": [group]}
    return msgspec.convert({"gates": True, "stopSeconds": 0, "autoscaler": autoscaler}, Settings)


def jobs(count: int = JOBS, seed: int = SEED) -> list[TraceJob]:
    """Run times grow over the trace, so that machines are bought, and pods preempted, until its end."""
    random, found, submit = RandomNumbers(seed), [], 0.0
    names = tuple(LIMITS)
    for number in range(count):
        submit += SPACING_S * (0.5 + random.uniform())
        queue = random.choice(names, (0.4, 0.8, 1.0))
        is_gang = queue == "gangs"
        is_urgent = queue == "research" and random.uniform() < 0.4
        mean_s = SPACING_S * (4 + 12 * number / count)
        found.append(
            TraceJob(
                submit=round(submit, 3),
                run=round(mean_s * (0.5 + random.uniform()), 3),
                queue=queue,
                requests={"cpu": str(SIZES[queue])},
                name=f"{queue}-{number:03d}",
                pods=2 if is_gang else 1,
                min_pods=2 if is_gang else 0,
                priority_class=f"priority-{number:03d}",
                preemption_policy="" if is_urgent else "Never",
            )
        )
    return found


def check_spacing(journal: Sequence[JournalEntry]) -> None:
    """Everything that happens later than the step that caused it has this step alone within the last minute."""
    steps = sorted({each.at for each in journal if each.what in STIMULI})
    for entry in journal:
        near = [at for at in steps if entry.at - SETTLED_S <= at <= entry.at]
        assert near, entry
        assert entry.at in steps or len(near) == 1, (entry, near)
    moments = {(each.at, each.job) for each in journal if each.what in STIMULI}
    assert len(steps) == len(moments), "two jobs have a step at the same moment"


def decided(journal: Iterable[JournalEntry]) -> list[tuple[str, str]]:
    return [(each.what, each.name) for each in journal if each.what in ("admitted", "bound", "preempted")]
