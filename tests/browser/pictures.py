"""Writes the pictures of docs/dashboard.md: each view of a small busy cluster, in the light and the dark colours.

``make pictures`` runs it. The window is small, so that the files are.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from browser.page_cluster import COMPONENTS, KUEUE, PODS, QUEUES, is_admitted, show, workload_of
from harness.browser import Browser, chromium_program
from harness.embedded_server import EmbeddedServer
from harness.page import Page
from harness.scheduler_process import send, wait_for
from shown_objects import a_job, a_pod
from simulated_clusters import any_flavor, kueue_queue, volcano_queue

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
WIDTH, HEIGHT = 1060, 640
NARROW = 400, 760
SCHEMES = ("light", "dark")
PICTURES = {
    "dashboard": "overview",
    "dashboard-waiting": "waiting",
    "dashboard-queues": "queues",
    "dashboard-quota": "quota",
    "dashboard-gates": "gates",
    "dashboard-nodes": "nodes",
    "dashboard-problems": "problems",
    "dashboard-pod": "unit/pods/default/train-7",
}


def busy(server: EmbeddedServer) -> None:
    """Two teams with queues, jobs behind a quota, gates of another controller, and a queue that does not exist."""
    for name, cpu in (("research", 24), ("production", 16)):
        send(server, "POST", QUEUES, volcano_queue(name, cpu=cpu, deserved={"cpu": str(cpu // 2)}))
    for team, parent, cpu in (("vision", "research", 8), ("speech", "research", 6), ("web", "production", 12)):
        send(server, "POST", QUEUES, volcano_queue(team, cpu=cpu, parent=parent))
    send(server, "POST", f"{KUEUE}/resourceflavors", any_flavor())
    for name, cpu in (("batch", 6), ("nightly", 4)):
        cluster_queue, local_queue = kueue_queue(name, cpu)
        cluster_queue["spec"]["cohortName"] = "shared"
        send(server, "POST", f"{KUEUE}/clusterqueues", cluster_queue)
        send(server, "POST", f"{KUEUE}/namespaces/default/localqueues", local_queue)
    for number in range(8):
        send(server, "POST", PODS, a_pod(f"train-{number}", "2", "vision"))
        send(server, "POST", PODS, a_pod(f"decode-{number}", "1500m", "speech"))
        send(server, "POST", PODS, a_pod(f"serve-{number}", "1", "web"))
    for number in range(5):
        send(server, "POST", PODS, a_pod(f"etl-{number}", "1", "web", gates=("example.com/dataset",)))
    send(server, "POST", PODS, a_pod("report", "1", "finance"))
    for number in range(7):
        send(server, "POST", "/apis/batch/v1/namespaces/default/jobs", _job(f"simulate-{number}"))
    wait_for(lambda: is_admitted(server, "simulate-0"))
    wait_for(lambda: _is_bound(server, "serve-7"))


def _job(name: str) -> dict[str, Any]:
    job = a_job(name)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "batch"}
    return job


def _is_bound(server: EmbeddedServer, pod: str) -> bool:
    return bool(send(server, "GET", f"{PODS}/{pod}")["spec"].get("nodeName"))


def main() -> None:
    program = chromium_program()
    if program is None:
        sys.exit("pictures: Chromium is absent; run `make chromium`")
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--components", COMPONENTS, "--nodes", "6", "--dashboard-listen", "127.0.0.1:0")
        server = EmbeddedServer(Path(folder) / "up", flags=flags)
        browser = Browser(Path(folder) / "browser", program)
        try:
            busy(server)
            browser.resize(WIDTH, HEIGHT)
            browser.open(Page(server._process.log).address)
            browser.wait_for_text("live", "#live")
            found = {**PICTURES, "dashboard-workload": f"unit/workloads/default/{workload_of(server, 'simulate-6')}"}
            for scheme in SCHEMES:
                browser.prefer(scheme)
                for name, address in found.items():
                    _take(browser, address, FOLDER / f"{name}-{scheme}.png")
            browser.resize(*NARROW)
            _take(browser, "waiting", FOLDER / "dashboard-narrow-dark.png")
        finally:
            browser.close()
            server.disconnect()
            server.stop()


def _take(browser: Browser, address: str, file: Path) -> None:
    show(browser, address)
    browser.evaluate("document.activeElement.blur()")
    browser.wait_for("!document.getElementById('main').innerText.includes('Reading')")
    browser.evaluate("new Promise(done => setTimeout(done, 800))")  # transitions have ended, and all rows are there
    browser.screenshot(file)


if __name__ == "__main__":
    main()
