"""Generates traces from published figures of real clusters. No data of these clusters is used, only the figures.

Run times are log-normal through the published median and mean; sizes follow tables that reproduce the published median
and mean number of GPUs. Arrivals follow a daily and a weekly cycle, in batches whose sizes are heavy-tailed: users
submit several jobs at once, and a plain Poisson process would be too even (Feitelson 1996).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Annotated, Final

import msgspec

from headgate.kube import quantity
from headgate.kube.resource_amounts import as_text, units
from headgate.simulate.random_numbers import RandomNumbers
from headgate.simulate.swf import size_class
from headgate.simulate.trace import MAX_TIME_S, TraceJob

_DAY_S: Final = 86_400.0
MAX_JOBS: Final = 100_000_000
_MAX_FACTOR: Final = 1e9
_WEEKEND: Final = 0.6
"""The rate of arrivals on two days of seven, relative to the others."""
_CYCLE: Final = 0.4
"""The amplitude of the daily cycle: the busiest hour has (1 + 0.4) / (1 - 0.4) = 2.3 times the arrivals of the most
quiet one."""
_BATCH_SHAPE: Final = 1.8
_MAX_BATCH: Final = 50
_USERS_PER_QUEUE: Final = 10


class LoadProfile(msgspec.Struct, frozen=True):
    """The figures of one cluster. ``mu``, ``sigma``: of the log-normal run time in seconds. ``sizes``: GPUs of a job
    and their shares; a job of size 0 has the CPU and memory of one GPU and no GPU. ``jobs_per_hour``: of the cluster.
    ``source``: where the figures are published."""

    mu: float
    sigma: float
    max_run_s: float
    jobs_per_hour: float
    sizes: Mapping[int, float]
    source: str


PROFILES: Final[Mapping[str, LoadProfile]] = {
    "helios": LoadProfile(
        5.33,
        2.64,
        4.32e6,
        90.0,
        {1: 0.598, 2: 0.08, 4: 0.12, 8: 0.15, 16: 0.035, 32: 0.013, 64: 0.004},
        "Helios (SenseTime 2020), summary in AcmeTrace: run time median 206 s, mean 6,652 s; GPUs median 1, mean 3.72",
    ),
    "philly": LoadProfile(
        6.77,
        2.46,
        4.24e6,
        34.0,
        {1: 0.77, 2: 0.085, 4: 0.07, 8: 0.065, 16: 0.01},
        "Philly (Microsoft 2017), summary in AcmeTrace: run time median 874 s, mean 18,006 s; GPUs median 1, mean 1.93",
    ),
    "openb": LoadProfile(
        6.44,
        1.88,
        1.0e6,
        2.3,
        {0: 0.133, 1: 0.8578, 2: 0.002, 4: 0.0018, 8: 0.0054},
        "Alibaba GPU 2023 (openb): lifetime median 540 s (log-normal fit 6.44, 1.88); 85.7 % of the pods have one GPU",
    ),
}


class GeneratorOptions(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """``jobs``: how many jobs. ``days``: over how many days they are submitted; 0: at the rate of the profile.
    ``queues``: the queues and their shares of the jobs. ``unit``: the requests of one GPU of the profile, so a cluster
    without GPUs can be loaded, too. ``max_pod_size``: a larger job is a gang of pods of this size. ``load``: factor for
    all run times. ``high_priority``: the share of jobs with priority 100; the others have 0."""

    profile: str = "helios"
    jobs: Annotated[int, msgspec.Meta(ge=1, le=MAX_JOBS)] = 1000
    days: Annotated[float, msgspec.Meta(ge=0, le=MAX_TIME_S / _DAY_S)] = 0.0
    queues: Mapping[str, Annotated[float, msgspec.Meta(gt=0, le=_MAX_FACTOR)]] = msgspec.field(
        default_factory=lambda: {"default": 1.0}
    )
    unit: Mapping[str, str] = msgspec.field(
        default_factory=lambda: {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    )
    max_pod_size: Annotated[int, msgspec.Meta(ge=1)] = 8
    load: Annotated[float, msgspec.Meta(gt=0, le=_MAX_FACTOR)] = 1.0
    max_run: Annotated[float, msgspec.Meta(gt=0, le=MAX_TIME_S)] = 7 * _DAY_S
    high_priority: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0


def generate(options: GeneratorOptions, seed: int) -> Iterator[TraceJob]:
    """The jobs, by submission."""
    profile = PROFILES[options.profile]
    random = RandomNumbers(seed)
    sizes, size_weights = tuple(profile.sizes), tuple(accumulate(profile.sizes.values()))
    queues, queue_weights = tuple(options.queues), tuple(accumulate(options.queues.values()))
    rate_per_s = options.jobs / (options.days * _DAY_S) if options.days else profile.jobs_per_hour / 3600
    requests = {size: _requests(options.unit, size) for size in range(options.max_pod_size + 1)}
    mean_batch = _mean_batch()
    submit, left = 0.0, 0
    queue, user = queues[0], ""
    for number in range(1, options.jobs + 1):
        if not left:
            submit = _next_batch(random, submit, rate_per_s / mean_batch)
            left = _batch(random)
            queue = random.choice(queues, queue_weights)
            user = f"{queue}-{int(random.uniform() * _USERS_PER_QUEUE)}"
        left -= 1
        size = random.choice(sizes, size_weights)
        pods = max(-(-size // options.max_pod_size), 1)
        run = random.log_normal(profile.mu, profile.sigma) * options.load
        yield TraceJob(
            submit=round(submit, 3),
            run=round(min(max(run, 1.0), options.max_run, profile.max_run_s), 3),
            queue=queue,
            requests=requests[min(size, options.max_pod_size)],
            name=f"job-{number}",
            pods=pods,
            min_pods=pods if pods > 1 else 0,
            priority=100 if options.high_priority and random.uniform() < options.high_priority else 0,
            class_=size_class(size),
            user=user,
        )


def _requests(unit: Mapping[str, str], size: int) -> dict[str, str]:
    """Of a pod with ``size`` units; size 0: one unit without extended resources, such as GPUs."""
    if size:
        return {name: as_text(name, units(name, quantity.amount(text)) * size) for name, text in unit.items()}
    return {name: text for name, text in unit.items() if "/" not in name}


def _next_batch(random: RandomNumbers, now_s: float, rate_per_s: float) -> float:
    """The time of the next batch: a Poisson process whose rate changes over the day and the week (Lewis and Shedler
    1979)."""
    peak = rate_per_s * (1 + _CYCLE) / _weekly_mean()
    while True:
        now_s += random.exponential(1 / peak)
        day, of_day = divmod(now_s / _DAY_S, 1.0)
        rate = (1 - _CYCLE * math.cos(2 * math.pi * of_day)) * (_WEEKEND if day % 7 >= 5 else 1.0)
        if random.uniform() * (1 + _CYCLE) < rate:
            return now_s


def _weekly_mean() -> float:
    return (5 + 2 * _WEEKEND) / 7


def _batch(random: RandomNumbers) -> int:
    """The number of jobs that a user submits together: Pareto, cut at 50."""
    return min(int(random.uniform() ** (-1 / _BATCH_SHAPE)), _MAX_BATCH)


def _mean_batch() -> float:
    """The mean of :func:`_batch`: the sum of the probabilities of at least 1, 2, … 50 jobs."""
    return math.fsum(math.pow(size, -_BATCH_SHAPE) for size in range(1, _MAX_BATCH + 1))
