"""How long a cluster for tests takes to be ready: Headgate in the process of the tests, ``headgate up --detach``, and
etcd with kube-apiserver, as envtest starts them.

Ready means: a client can list namespaces. The CPU time is that of all processes until then. ``docs/testing.md`` has the
table. kind and the real kwok are not measured: they need container images or a download.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from bench import report
from bench.process import cpu_s
from harness.embedded_server import HEADGATE
from harness.real_server import RealServer, binaries
from headgate.testing import Cluster, wait_until
from headgate.testing.cluster import EmbeddedCluster

ROUNDS: Final = 5
PAGE: Final = report.FILE.with_name("testing.md")
_MEMORY: Final = Path("/dev/shm")


class StartTime(msgspec.Struct, frozen=True):
    wall_s: float
    cpu_s: float


def own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def in_process(**options: object) -> StartTime:
    began_s, cpu_before_s = time.perf_counter(), own_cpu_s()
    with Cluster(**options) as cluster:  # type: ignore[arg-type]  # the keywords of Cluster
        cluster.client.list("Namespace", None)
        return StartTime(time.perf_counter() - began_s, own_cpu_s() - cpu_before_s)


def new_namespace(cluster: EmbeddedCluster) -> StartTime:
    """Until pods can be created: the controllers have made its service account."""
    began_s, cpu_before_s, client = time.perf_counter(), own_cpu_s(), cluster.client
    made = client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "bench-"}})
    name = made["metadata"]["name"]
    wait_until(lambda: client.find("ServiceAccount", "default", name), poll_s=0.002)
    found = StartTime(time.perf_counter() - began_s, own_cpu_s() - cpu_before_s)
    client.delete("Namespace", name)
    return found


def detached(*flags: str) -> StartTime:
    with tempfile.TemporaryDirectory(dir=_place()) as folder:
        data = str(Path(folder) / "data")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began_s = time.perf_counter()
        command = [str(HEADGATE), "up", "--detach", "--data", data, "--listen", "127.0.0.1:0", *flags]
        subprocess.run(command, check=True, capture_output=True)
        wall_s = time.perf_counter() - began_s
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        record = msgspec.json.decode((Path(data) / "headgate.pid").read_bytes())
        server_s = cpu_s(record["pid"])
        subprocess.run([str(HEADGATE), "down", "--data", data], check=True, capture_output=True)
    starter_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return StartTime(wall_s, starter_s + server_s)


def etcd_and_apiserver(programs: Path) -> StartTime:
    with tempfile.TemporaryDirectory(dir=_place()) as folder:
        began_s = time.perf_counter()
        server = RealServer(Path(folder), programs)
        try:
            answer = server.request("GET", "/api/v1/namespaces")
            assert answer.status == 200, answer.body
            return StartTime(time.perf_counter() - began_s, sum(cpu_s(pid) for pid in server.pids().values()))
        finally:
            server.disconnect()
            server.stop()


def _place() -> Path | None:
    """In memory, as ``headgate.testing`` does."""
    return _MEMORY if _MEMORY.is_dir() else None


def median(starts: list[StartTime]) -> StartTime:
    """Of each column for itself."""
    middle = len(starts) // 2
    return StartTime(sorted(each.wall_s for each in starts)[middle], sorted(each.cpu_s for each in starts)[middle])


def import_time() -> StartTime:
    code = "from headgate.testing import Cluster; Cluster"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return StartTime(time.perf_counter() - began_s, used_s)


def main() -> None:
    only_server = ("apiserver",)
    with Cluster() as shared:
        _measure(only_server, lambda: new_namespace(shared))


def _measure(only_server: tuple[str, ...], in_a_namespace: Callable[[], StartTime]) -> None:
    contenders: dict[str, Callable[[], StartTime]] = {
        "a Python process that imports `headgate.testing`, once per run": import_time,
        "`Cluster()`: 3 nodes, all components": in_process,
        '`Cluster(components=("apiserver",))`': lambda: in_process(components=only_server),
        "a new namespace in a running `Cluster()`": in_a_namespace,
        "`headgate up --detach`: 3 nodes, all components": detached,
        "`headgate up --detach --components apiserver`": lambda: detached("--components", "apiserver"),
    }
    programs = binaries()
    if programs is not None:
        found = programs
        contenders["etcd and kube-apiserver v1.35.8, as envtest"] = lambda: etcd_and_apiserver(found)
    rounds = int(os.environ.get("HEADGATE_BENCH_ROUNDS", ROUNDS))
    rows = []
    for title, start in contenders.items():
        start()  # files are in the page cache, and modules are compiled
        found_times = median([start() for _ in range(rounds)])
        rows.append((title, f"{found_times.wall_s:.2f} s", f"{found_times.cpu_s:.2f} s"))
        print(*rows[-1], sep="  ", flush=True)
    report.write("cluster-start", report.table(("start", "until ready", "CPU time"), rows), PAGE)
