"""The traces on which estimates are scored (``estimates.py``): five kinds of load, with a cluster for each.

Three have the published figures of known clusters, two are loads that platform teams have: jobs that run again and
again with little variation, and a cohort that lends quota between teams of different priorities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from headgate.simulate.generator import GeneratorOptions, generate
from headgate.simulate.job_objects import Queueing
from headgate.simulate.random_numbers import RandomNumbers
from headgate.simulate.trace import TraceJob
from simulated_clusters import any_flavor, kueue_queue, machines, volcano_queue

Object = dict[str, Any]

JOBS: Final = 400
_DAY_S: Final = 86_400.0


class TraceKind(msgspec.Struct, frozen=True):
    """``about``: for the table. ``jobs``: by seed."""

    name: str
    about: str
    queueing: Queueing
    objects: tuple[Object, ...]
    jobs: Callable[[int], Iterable[TraceJob]]


def _generated(
    profile: str, queues: dict[str, float], days: float, largest: int, **more: Any
) -> Callable[[int], Iterable[TraceJob]]:
    """Jobs of the profile with at most ``largest`` CPUs, which run for two hours at most: the clusters are small."""
    options = GeneratorOptions(profile, JOBS, days, queues, {"cpu": "1"}, max_pod_size=8, max_run=7200.0, **more)
    return lambda seed: (each for each in generate(options, seed) if int(each.requests["cpu"]) * each.pods <= largest)


def _pipelines(seed: int) -> Iterable[TraceJob]:
    """Forty jobs that run again and again: each has its own run time, which varies by 15 %."""
    random = RandomNumbers(seed, 11)
    kinds = [(round(random.log_normal(6.5, 1.0), 1), 1 + int(random.uniform() * 3)) for _ in range(40)]
    now_s = 0.0
    found: list[TraceJob] = []
    for _ in range(JOBS):
        now_s += random.exponential(340.0)
        kind = int(random.uniform() * len(kinds))
        run_s, cpu = kinds[kind]
        drawn_s = max(run_s * math.exp(0.15 * random.normal()), 1.0)
        number = len(found) + 1
        found.append(
            TraceJob(
                submit=round(now_s, 3),
                run=round(drawn_s, 3),
                queue="pipelines" if kind % 2 else "reports",
                requests={"cpu": str(cpu)},
                name=f"pipeline-{chr(97 + kind // 26)}{chr(97 + kind % 26)}-{number}",
            )
        )
    return found


def _cohort() -> list[Object]:
    preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    return [
        *machines(4, cpu=8),
        any_flavor(),
        *kueue_queue("research", 8, cohortName="all", preemption=preemption),
        *kueue_queue("product", 8, cohortName="all", preemption=preemption),
    ]


KINDS: Final = (
    TraceKind(
        "helios",
        "Helios-like jobs of 1 to 16 CPUs, gangs, two Volcano-style queues",
        "volcano",
        (*machines(4, cpu=8), volcano_queue("a", cpu=20), volcano_queue("b", cpu=16)),
        _generated("helios", {"a": 1.5, "b": 1.0}, 0.62, 16),
    ),
    TraceKind(
        "philly",
        "Philly-like jobs of 1 to 8 CPUs, a fifth with a high priority, one queue",
        "volcano",
        (*machines(2, cpu=8), volcano_queue("a", cpu=15)),
        _generated("philly", {"a": 1.0}, 1.6, 8, high_priority=0.2),
    ),
    TraceKind(
        "openb",
        "Openb-like jobs, nearly all of one CPU, three queues with limits",
        "volcano",
        (*machines(2, cpu=8), *(volcano_queue(name, cpu=3) for name in "abc")),
        _generated("openb", {"a": 1.0, "b": 1.0, "c": 1.0}, 1.4, 3),
    ),
    TraceKind(
        "pipelines",
        "forty jobs that run again and again, two ClusterQueues",
        "kueue",
        (*machines(2, cpu=8), any_flavor(), *kueue_queue("pipelines", 4), *kueue_queue("reports", 4)),
        _pipelines,
    ),
    TraceKind(
        "cohort",
        "Helios-like jobs of 1 to 8 CPUs with two priorities, two ClusterQueues that lend quota, preemption",
        "kueue",
        tuple(_cohort()),
        _generated("helios", {"research": 1.0, "product": 1.0}, 0.8, 8, high_priority=0.2),
    ),
)
