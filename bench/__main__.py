"""``python -m bench [NAME …]``: runs all measurements, or the named ones; a single one may get its own options.

The run does not start on a busy machine (`quiet.py`). Tables go to ``docs/benchmarks.md`` and are appended to
``bench/history.jsonl`` (`history.py`), with the differences from the last run.
"""

from __future__ import annotations

import os
import platform
import sys

from bench import (
    admission_reviews,
    apiserver,
    cluster_start,
    controllers,
    creates,
    cycle,
    dashboard,
    estimates,
    evictions,
    gate,
    latency,
    metrics,
    queues,
    quiet,
    quota,
    report,
    responsiveness,
    scheduler,
    simulate,
    size,
    store,
    transport,
    waiting,
    webhooks,
    workloads,
)
from harness.orphans import watch_over

BENCHES = {
    "creates": creates.main,
    "apiserver": apiserver.main,
    "size": size.main,
    "cluster-start": cluster_start.main,
    "store": store.main,
    "controllers": controllers.main,
    "transport": transport.main,
    "webhooks": webhooks.main,
    "cycle": cycle.main,
    "metrics": metrics.main,
    "waiting": waiting.main,
    "queues": queues.main,
    "quota": quota.main,
    "evictions": evictions.main,
    "estimates": estimates.main,
    "scheduler": scheduler.main,
    "gate": gate.main,
    "latency": latency.main,
    "admission-reviews": admission_reviews.main,
    "workloads": workloads.main,
    "responsiveness": responsiveness.main,
    "simulate": simulate.main,
    "dashboard": dashboard.main,
}
WITH_OPTIONS = {
    "admission-reviews": admission_reviews.main,
    "dashboard": dashboard.main,
    "estimates": estimates.main,
    "scheduler": scheduler.main,
    "gate": gate.main,
    "latency": latency.main,
    "quota": quota.main,
    "simulate": simulate.main,
    "workloads": workloads.main,
}


def main() -> int:
    watch_over()
    if sys.argv[1:2] and sys.argv[1] in WITH_OPTIONS and any(each.startswith("-") for each in sys.argv[2:]):
        _say_machine()
        WITH_OPTIONS[sys.argv[1]](sys.argv[2:])
        return 0
    wanted = sys.argv[1:] or list(BENCHES)
    unknown = [name for name in wanted if name not in BENCHES]
    if unknown:
        print(f"no such measurement: {', '.join(unknown)}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    _say_machine()
    for name in wanted:
        BENCHES[name]()
    return 0


def _say_machine() -> None:
    cores = quiet.busy_cores()
    report.busy(cores)
    machine = quiet.check(cores, anyway=os.environ.get(quiet.ANYWAY) == "1")
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {machine}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except quiet.Busy as trouble:
        sys.exit(f"bench: {trouble}")
