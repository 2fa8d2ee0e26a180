"""The cost of metrics: an observation and a page, compared with prometheus-client, and all metrics of one bound pod.

Rounds alternate, and the median of each is used, so that other load on the machine affects both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as TheirHistogram

from bench import report
from headgate.kube.metrics import exponential_buckets
from headgate.scheduling.cache.pod import PodLike
from headgate.scheduling.framework.plugin_timers import FILTER
from headgate.scheduling.metrics.scheduler_metrics import SCHEDULED, SchedulerMetrics
from unit.scheduling.pods import a_pod

COUNT: Final = 20_000
PAGES: Final = 3
ROUNDS: Final = 15
GATES: Final = 100
PLUGINS: Final = 6


def main() -> None:
    metrics, registry = SchedulerMetrics(time.perf_counter), CollectorRegistry()
    theirs = TheirHistogram(
        "attempts", "", ["result", "profile"], buckets=exponential_buckets(0.001, 2, 15), registry=registry
    )
    waits = TheirHistogram("waits", "", ["gate"], buckets=exponential_buckets(1, 4, 11), registry=registry)
    for number in range(GATES):
        pod: PodLike = a_pod(f"p{number}", gates=(f"example.com/{number}",))
        metrics.gates.pod_added(pod)
        waits.labels(f"example.com/{number}")
    one = {
        "ours": lambda: metrics.attempted(SCHEDULED, "p", 0.003),
        "prometheus-client": lambda: theirs.labels(SCHEDULED, "p").observe(0.003),
    }
    pages = {"ours": lambda: metrics.exposition(0.0), "prometheus-client": lambda: generate_latest(registry)}
    print("\nMetrics")
    rows = [[f"an observation, {name}", f"{cost_s * 1e9:.0f} ns"] for name, cost_s in _middle(one, COUNT).items()]
    for name, cost_s in _middle(pages, PAGES).items():
        rows.append([f"a page with {GATES} gates, {name}", f"{cost_s * 1e3:.1f} ms"])
    found = _middle({"all": _one_pod(metrics)}, COUNT)["all"]
    rows.append([f"all metrics of one pod, {PLUGINS} plugins asked", f"{found * 1e6:.1f} µs"])
    for what, figure in rows:
        print(f"  {what:52} {figure:>12}")
    report.record("metrics", report.table(("what", "CPU"), rows))


def _one_pod(metrics: SchedulerMetrics) -> Callable[[], None]:
    watch = metrics.timers("p")
    meters = [watch.timer(f"plugin-{number}", FILTER) for number in range(PLUGINS)]
    clock = time.perf_counter

    def tell() -> None:
        began_s = clock()
        watch.begin()
        for meter in meters:
            asked_s = meter.begin()
            if asked_s is not None:
                meter.end(asked_s, "Success")
        watch.end()
        metrics.decided(clock() - began_s)
        metrics.attempted(SCHEDULED, "p", 0.003)
        metrics.placed(1, 0.02)

    return tell


def _middle(what: Mapping[str, Callable[[], object]], count: int) -> dict[str, float]:
    """Seconds per call."""
    found: dict[str, list[float]] = {name: [] for name in what}
    for _ in range(ROUNDS):
        for name, call in what.items():
            began_s = time.process_time()
            for _ in range(count):
                call()
            found[name].append((time.process_time() - began_s) / count)
    return {name: median(each) for name, each in found.items()}
