"""The schedulers that are measured, as processes: kube-scheduler with high limits, and ``headgate run``.

kube-scheduler's client may send 5,000 requests per second (the default is 50), it elects no leader and uses protobuf,
as by default. Headgate runs with its defaults, without leader election.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from bench.cluster import Stuck
from bench.process import cpu_s, is_runnable
from harness.embedded_server import HEADGATE
from harness.processes import Process

_REST_WINDOW_S: Final = 1.5
_REST_GLANCE_S: Final = 0.05
_REST_CPU_S: Final = 0.05
_REST_BUSY: Final = 6
_GLANCE_S: Final = 0.2
_QPS: Final = 5000


class Contender(msgspec.Struct, frozen=True):
    name: str
    serves: str
    """The ``schedulerName`` of its pods."""
    command: Callable[[Path, Path, Path], list[str]]
    """Arguments: the folder of the real binaries, the kubeconfig, and a folder for files."""


def _kube_scheduler(programs: Path, kubeconfig: Path, folder: Path) -> list[str]:
    config = folder / "kube-scheduler.yaml"
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": _QPS, "burst": _QPS},
        "leaderElection": {"leaderElect": False},
    }
    config.write_text(yaml.safe_dump(settings))
    return [str(programs / "kube-scheduler"), f"--config={config}", "--secure-port=0"]


def _headgate(programs: Path, kubeconfig: Path, folder: Path) -> list[str]:
    return [str(HEADGATE), "run", "--kubeconfig", str(kubeconfig), "--no-leader-elect"]


KUBE: Final = Contender("kube-scheduler", "default-scheduler", _kube_scheduler)
OURS: Final = Contender("headgate", "headgate", _headgate)
CONTENDERS: Final = {each.name: each for each in (KUBE, OURS)}


@contextmanager
def running(contender: Contender, programs: Path, kubeconfig: Path, folder: Path) -> Iterator[Process]:
    process = Process(contender.command(programs, kubeconfig, folder), folder / f"{contender.name}.log")
    try:
        yield process
    except Stuck as trouble:
        raise Stuck(f"{contender.name}: {trouble}\n{process.tail()}") from trouble
    finally:
        process.stop()


async def unless_it_ends(process: Process, waiting: Coroutine[Any, Any, float]) -> float:
    """The result of ``waiting``. Raises ``Stuck`` as soon as the process has ended."""
    task = asyncio.ensure_future(waiting)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=_GLANCE_S)
            if not process.running():
                raise Stuck("it ended")
        return task.result()
    finally:
        task.cancel()


async def at_rest(process: Process, others: Collection[int], limit_s: float = 120.0) -> None:
    """Waits until the process uses almost no CPU for a while: its lists are read, or its Events written. ``others`` are
    processes that it may wait for. On a busy machine a process that uses no CPU may only be waiting for a core; it then
    does not count as idle."""
    deadline_s = time.perf_counter() + limit_s
    looks: deque[tuple[float, bool]] = deque(maxlen=round(_REST_WINDOW_S / _REST_GLANCE_S))
    while True:
        busy = any(map(is_runnable, (process.pid, *others)))
        looks.append((cpu_s(process.pid), busy))
        used_s = looks[-1][0] - looks[0][0]
        if len(looks) == looks.maxlen and used_s <= _REST_CPU_S and sum(each for _, each in looks) <= _REST_BUSY:
            return
        if time.perf_counter() > deadline_s:
            raise Stuck(f"it does not come to rest in {limit_s:.0f} s")
        await asyncio.sleep(_REST_GLANCE_S)
        if not process.running():
            raise Stuck("it ended")
