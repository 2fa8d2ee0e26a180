"""``python -m bench [NAME …]``: run all measurements, or those named; one alone may be given options of its own."""

from __future__ import annotations

import os
import platform
import sys

from bench import (
    apiserver,
    controllers,
    creates,
    cycle,
    gate,
    latency,
    metrics,
    queues,
    quota,
    responsiveness,
    scheduler,
    size,
    store,
    transport,
    waiting,
    workloads,
)
from harness.orphans import watch_over

BENCHES = {
    "creates": creates.main,
    "apiserver": apiserver.main,
    "size": size.main,
    "store": store.main,
    "controllers": controllers.main,
    "transport": transport.main,
    "cycle": cycle.main,
    "metrics": metrics.main,
    "waiting": waiting.main,
    "queues": queues.main,
    "quota": quota.main,
    "scheduler": scheduler.main,
    "gate": gate.main,
    "latency": latency.main,
    "workloads": workloads.main,
    "responsiveness": responsiveness.main,
}
WITH_OPTIONS = {
    "scheduler": scheduler.main,
    "gate": gate.main,
    "latency": latency.main,
    "quota": quota.main,
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
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    sys.exit(main())
