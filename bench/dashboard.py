"""What the page costs on a large cluster: the time until it shows the cluster, and what one viewer adds.

``headgate dashboard`` runs beside an embedded API server with parked pods and queues, in a process of its own, so its
CPU time and memory are those of the page. A client creates and deletes pods at a fixed rate. The cost of a viewer is
the CPU time of the process with one Chromium minus that without a viewer, in the same number of seconds. Viewers for
the memory are connections with the token of a user, which cost more than the operator's.
"""

from __future__ import annotations

import argparse
import http.client
import json
import selectors
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from bench import report
from bench.process import cpu_s, resident_bytes
from harness.browser import HOW_TO_GET_CHROMIUM, Browser, chromium_program
from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.page import Page
from harness.processes import Process
from harness.scheduler_process import send
from harness.server import JSON_TYPE
from harness.users import ALICE
from headgate.capacity.names import OPT_IN, QUEUE_NAME

PODS: Final = 100_000
QUEUES: Final = 1_000
CHANGES_PER_S: Final = 100
RATE_BAR: Final = 95
ROUND_S: Final = 20.0
ROUNDS: Final = 5
PAINTS: Final = 5
VIEWERS: Final = 40
PAINT_BAR_MS: Final = 1000.0
CPU_BAR: Final = 0.02
MEMORY_BAR: Final = 5 << 20
_LOAD: Final = "bench"
_SETTLE_S: Final = 3.0
_READ_S: Final = 300.0
_VIEWS: Final = ("overview", "waiting", "queues", "waiting?kind=Queue&queue=bench-queue-00001")
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"


class Sizes(msgspec.Struct, frozen=True):
    pods: int
    queues: int
    round_s: float
    rounds: int

    @property
    def is_official(self) -> bool:
        return self == Sizes(PODS, QUEUES, ROUND_S, ROUNDS)


class Changes:
    """Creates a pod and deletes the one before it, at a fixed rate, in a thread of its own."""

    def __init__(self, server: EmbeddedServer, queues: int) -> None:
        self._server: Final = server
        self._queues: Final = queues
        self._is_over = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, daemon=True)
        self.done = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        began_s, path = time.perf_counter(), "/api/v1/namespaces/default/pods"
        while not self._is_over.is_set():
            number = self.done // 2
            if self.done % 2:
                self._server.request("DELETE", f"{path}/change-{number}", JSON_TYPE, b'{"gracePeriodSeconds":0}')
            else:
                self._server.request("POST", path, JSON_TYPE, json.dumps(_pod(number, self._queues)).encode())
            self.done += 1
            due_s = began_s + self.done / CHANGES_PER_S
            self._is_over.wait(max(0.0, due_s - time.perf_counter()))


def _pod(number: int, queues: int) -> dict[str, Any]:
    annotations = {QUEUE_NAME: f"{_LOAD}-queue-{1 + number % queues:05}", OPT_IN: "true"}
    container = {"name": "main", "image": "job", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"change-{number}", "annotations": annotations},
        "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
    }


class Viewers:
    """Connections that read the stream of a user, in one thread."""

    def __init__(self, page: Page, count: int) -> None:
        self._connections: Final = [http.client.HTTPConnection(page.host, timeout=_READ_S) for _ in range(count)]
        self._is_over = threading.Event()
        self._thread: Final = threading.Thread(target=self._read, daemon=True)
        self._responses: Final[list[http.client.HTTPResponse]] = []
        for each in self._connections:
            each.request("GET", "/api/stream", headers={"authorization": f"Bearer {ALICE}"})
            self._responses.append(each.getresponse())
        self._thread.start()

    def _read(self) -> None:
        with selectors.DefaultSelector() as selector:
            for connection, response in zip(self._connections, self._responses, strict=True):
                selector.register(connection.sock, selectors.EVENT_READ, response)
            while not self._is_over.is_set():
                for key, _ in selector.select(0.1):
                    key.data.read1(1 << 20)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        for each in self._connections:
            each.close()


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench dashboard", description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=PODS, help="with other sizes no table is written")
    parser.add_argument("--queues", type=int, default=QUEUES)
    parser.add_argument("--seconds", type=float, default=ROUND_S, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args(arguments)
    program = chromium_program()
    if program is None:
        raise SystemExit(f"bench: Chromium is absent: {HOW_TO_GET_CHROMIUM}")
    sizes = Sizes(given.pods, given.queues, given.seconds, given.rounds)
    print(f"\nthe page, {sizes.pods:,} parked pods in {sizes.queues:,} queues, {CHANGES_PER_S} changes per second")
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder), sizes) as (server, process):
        rows = _measure(server, process, Path(folder), program, sizes)
    for row in rows:
        print("  " + "  ".join(row))
    if sizes.is_official:
        report.write("the page", report.table(("what", "measured", "bar"), rows))


@contextmanager
def _served(folder: Path, sizes: Sizes) -> Iterator[tuple[EmbeddedServer, Process]]:
    """The API server with the load, and the process of the page."""
    server = EmbeddedServer(folder / "up", flags=("--no-dashboard",))
    access = ("--kubeconfig", str(server.kubeconfig))
    try:
        _run("install-crds", *access)
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
        send(server, "POST", f"{_RBAC}/clusterroles", {"metadata": {"name": "viewer"}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewer"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}
        body = {"metadata": {"name": "viewer"}, "roleRef": role, "subjects": [subject]}
        send(server, "POST", f"{_RBAC}/clusterrolebindings", body)
        counts = ("--queues", str(sizes.queues), "--pods", str(sizes.pods))
        _run("load", _LOAD, *counts, "--queue-cpu", "8", "--concurrency", "32", *access)
        listen = ("dashboard", "--listen", "127.0.0.1:0")
        process = Process([str(HEADGATE), *listen, *access], folder / "dashboard.log")
        try:
            process.wait_until(lambda: "the page of" in process.log.read_text(), _READ_S)
            yield server, process
        finally:
            process.stop()
    finally:
        server.disconnect()
        server.stop()


def _run(*words: str) -> None:
    subprocess.run([str(HEADGATE), *words], check=True, stdout=subprocess.DEVNULL)


def _measure(server: EmbeddedServer, process: Process, folder: Path, program: Path, sizes: Sizes) -> list[list[str]]:
    page = Page(process.log)
    _wait_for_rows(page, sizes)
    paints = [_first_paint(page, folder / f"paint-{number}", program, sizes) for number in range(PAINTS)]
    painted, shown = (statistics.median(each) for each in zip(*paints, strict=True))
    rows = [
        ["first contentful paint", f"{painted:.0f} ms", ""],
        ["from the request to the numbers of the overview", *_against(shown, PAINT_BAR_MS, f"{shown:.0f} ms", "1 s")],
    ]
    changes = Changes(server, sizes.queues)
    changes.start()
    try:
        time.sleep(_SETTLE_S)
        costs: dict[str, list[float]] = {view: [] for view in ("", *_VIEWS)}
        for round_ in range(sizes.rounds):
            for view, found in costs.items():
                with _watched(page, folder / f"browser-{round_}-{len(found)}-{abs(hash(view))}", program, view):
                    found.append(_cost(process, sizes.round_s))
        rate = _rate(changes, sizes.round_s)
        before = resident_bytes(process.pid)
        viewers = Viewers(page, VIEWERS)
        time.sleep(sizes.round_s)
        each_bytes = (resident_bytes(process.pid) - before) / VIEWERS
        viewers.close()
    finally:
        changes.stop()
    idle = statistics.median(costs.pop(""))
    rows += [
        [
            "changes per second that were made",
            f"{rate:.0f}",
            f"≥ {RATE_BAR}{'' if rate >= RATE_BAR else ', **missed**'}",
        ],
        ["CPU of the page without a viewer", f"{100 * idle:.1f} % of a core", ""],
    ]
    for view, found in costs.items():
        more = statistics.median(each - idle for each in found)
        title = f"what one viewer adds, in the view `{view}`"
        rows.append([title, *_against(more, CPU_BAR, f"{100 * more:.1f} % of a core", "2 %")])
    text = f"{each_bytes / (1 << 20):.2f} MiB"
    rows.append([f"memory of a viewer, of {VIEWERS}", *_against(each_bytes, MEMORY_BAR, text, "5 MiB")])
    rows.append(["memory of the process with them", f"{resident_bytes(process.pid) / (1 << 20):.0f} MiB", ""])
    return rows


def _wait_for_rows(page: Page, sizes: Sizes) -> None:
    ends_s = time.monotonic() + _READ_S
    while page.get("/api/waiting?limit=1")["total"] < sizes.pods:
        if time.monotonic() > ends_s:
            raise SystemExit("bench: the page has not read all pods in time")
        time.sleep(0.5)


def _first_paint(page: Page, folder: Path, program: Path, sizes: Sizes) -> tuple[float, float]:
    """Milliseconds from the request to the first contentful paint, and to the number of waiting units."""
    browser = Browser(folder, program)
    try:
        browser.open(page.address)
        count = json.dumps(f"{sizes.pods:,}")
        browser.wait_for(
            f"document.getElementById('main')?.innerText.includes({count})"
            " && (window.shownAt ??= performance.now()) > 0",
            _READ_S,
        )
        painted = browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        return float(painted), float(browser.evaluate("window.shownAt"))
    finally:
        browser.close()


@contextmanager
def _watched(page: Page, folder: Path, program: Path, view: str) -> Iterator[None]:
    """While Chromium shows the view; without a browser for an empty view."""
    if not view:
        yield
        return
    browser = Browser(folder, program)
    try:
        browser.open(page.address)
        browser.wait_for_text("live", "#live")
        browser.evaluate(f"location.hash = '#/{view}'")
        time.sleep(_SETTLE_S)
        yield
    finally:
        browser.close()


def _cost(process: Process, seconds: float) -> float:
    """The share of a core that the process uses in the next seconds."""
    before_s, began_s = cpu_s(process.pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_s(process.pid) - before_s) / (time.monotonic() - began_s)


def _rate(changes: Changes, seconds: float) -> float:
    before, began_s = changes.done, time.monotonic()
    time.sleep(seconds)
    return (changes.done - before) / (time.monotonic() - began_s)


def _against(value: float, bar: float, text: str, bar_text: str) -> list[str]:
    return [text, f"≤ {bar_text}{_missed(value <= bar)}"]


def _missed(met: bool) -> str:
    return "" if met else ", **missed**"
