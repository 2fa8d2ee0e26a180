"""The cluster that the suites of the page show: each view has rows in it, and some names are hostile."""

from __future__ import annotations

import json

from harness.browser import Browser
from harness.embedded_server import EmbeddedServer
from harness.scheduler_process import send, wait_for
from shown_objects import a_job, a_pod
from simulated_clusters import any_flavor, kueue_queue, volcano_queue

COMPONENTS = "apiserver,nodes,controllers,scheduler,quota,jobs"
PODS = "/api/v1/namespaces/default/pods"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
GATE = "example.com/data"
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp"
LONGEST = "a" * 253
MANY = 500


def fill(server: EmbeddedServer) -> None:
    """One running and several waiting pods in Volcano's and in Kueue's queues, a gate, and what is wrong."""
    send(server, "POST", QUEUES, volcano_queue("q", cpu=2))
    send(server, "POST", f"{KUEUE}/resourceflavors", any_flavor())
    cluster_queue, local_queue = kueue_queue("kq", 2)
    send(server, "POST", f"{KUEUE}/clusterqueues", cluster_queue)
    send(server, "POST", f"{KUEUE}/namespaces/default/localqueues", local_queue)
    send(server, "POST", PODS, a_pod("runs", "2"))
    wait_for(lambda: send(server, "GET", f"{PODS}/runs")["spec"].get("nodeName"))
    send(server, "POST", PODS, a_pod("waits"))
    send(server, "POST", PODS, a_pod("held", gates=(GATE,)))
    send(server, "POST", PODS, a_pod("hostile", queue=HOSTILE))
    send(server, "POST", PODS, a_pod(LONGEST, queue="missing"))
    send(server, "POST", JOBS, a_job("first"))
    wait_for(lambda: is_admitted(server, "first"))
    send(server, "POST", JOBS, a_job("second"))


def is_admitted(server: EmbeddedServer, job: str) -> bool:
    return send(server, "GET", f"{JOBS}/{job}")["spec"].get("suspend") is False


def workload_of(server: EmbeddedServer, job: str) -> str:
    items = send(server, "GET", f"{KUEUE}/namespaces/default/workloads")["items"]
    names = {item["metadata"]["ownerReferences"][0]["name"]: item["metadata"]["name"] for item in items}
    return str(names[job])


VIEWS = ("overview", "waiting", "waiting?kind=Queue&queue=q", "queues", "quota", "gates", "nodes", "problems")
"""All views; those of single units are beside them."""
POD_VIEW = "unit/pods/default/waits"


def show(browser: Browser, address: str) -> None:
    """Opens a view, and waits until it has its heading and its rows."""
    browser.evaluate(f"location.hash = {json.dumps('#/' + address)}")
    browser.wait_for(f"document.getElementById('main').dataset.view === {json.dumps(address)}")
    browser.wait_for("document.querySelector('#main h1') !== null")
    if address.startswith("waiting"):
        browser.wait_for("document.querySelectorAll('.row a').length > 0")
