"""Makes the pictures of `headgate top` in docs/images: a small cluster with some load, shown in tmux.

    PYTHONPATH=tests .venv/bin/python tools/render_top.py

It starts `headgate up` in a temporary folder, with queues of two teams, a ClusterQueue, and more pods and Jobs than
fit. ``tools/terminal_svg.py`` draws what tmux shows.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.terminal_svg import svg

from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.orphans import watch_over
from harness.processes import free_ports
from harness.scheduler_process import send
from harness.tmux import HOW_TO_GET_TMUX, TmuxTerminal, tmux_program

IMAGES: Final = Path(__file__).resolve().parents[1] / "docs" / "images"
COLUMNS, ROWS = 118, 26
GATE: Final = "data.example.com/staged"
QUEUE: Final = "scheduling.volcano.sh/v1beta1"
KUEUE: Final = "kueue.x-k8s.io/v1beta2"
PICTURES: Final = {
    "top-overview": ("1", "headgate top: the overview of a cluster"),
    "top-waiting": ("2", "headgate top: what waits, with its place in line and the reason"),
    "top-queues": ("3", "headgate top: the tree of queues, with bars of used, reserved and waiting amounts"),
}


def create(server: EmbeddedServer, path: str, kind: str, name: str, **fields: Any) -> None:
    metadata = {"name": name, **fields.pop("metadata", {})}
    send(server, "POST", path, {"kind": kind, "metadata": metadata, **fields})


def create_queues(server: EmbeddedServer) -> None:
    path = f"/apis/{QUEUE}/queues"
    for name, parent, cpu in (("research", "root", 20), ("vision", "research", 12), ("speech", "research", 8)):
        limits: dict[str, Any] = {"parent": parent, "capability": {"cpu": str(cpu), "memory": f"{4 * cpu}Gi"}}
        create(server, path, "Queue", name, apiVersion=QUEUE, spec=limits)
    create(server, f"/apis/{KUEUE}/resourceflavors", "ResourceFlavor", "spot", apiVersion=KUEUE, spec={})
    resources = [{"name": name, "nominalQuota": amount} for name, amount in (("cpu", "6"), ("memory", "24Gi"))]
    flavors = [{"name": "spot", "resources": resources}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]
    spec: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": groups}
    create(server, f"/apis/{KUEUE}/clusterqueues", "ClusterQueue", "batch", apiVersion=KUEUE, spec=spec)
    path = f"/apis/{KUEUE}/namespaces/default/localqueues"
    create(server, path, "LocalQueue", "batch", apiVersion=KUEUE, spec={"clusterQueue": "batch"})


def a_pod(cpu: int, run_for: str) -> dict[str, Any]:
    requests = {"cpu": str(cpu), "memory": f"{2 * cpu}Gi"}
    container = {"name": "main", "image": "example", "resources": {"requests": requests}}
    return {
        "metadata": {"annotations": {"headgate.dev/run-for": run_for}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def create_pod(server: EmbeddedServer, queue: str, name: str, cpu: int, run_for: str, *gates: str) -> None:
    pod = a_pod(cpu, run_for)
    pod["metadata"]["annotations"] |= {
        "scheduling.volcano.sh/queue-name": queue,
        "scheduling.volcano.sh/queue-allocation-gate": "true",
    }
    pod["spec"] |= {"schedulerName": "headgate", "schedulingGates": [{"name": each} for each in gates]}
    create(server, "/api/v1/namespaces/default/pods", "Pod", name, apiVersion="v1", **pod)


def create_load(server: EmbeddedServer) -> None:
    for number in range(9):
        create_pod(server, "vision", f"train-resnet-{number}", 2, f"{6 + 3 * number}s")
    for number in range(6):
        create_pod(server, "speech", f"whisper-{number}", 3, "1h")
    create_pod(server, "speech", "transcribe", 1, "1h", GATE)
    create_pod(server, "archive", "reindex", 1, "1h")
    for number in range(3):
        job = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "batch"}}, "spec": {"template": a_pod(4, "1h")}}
        create(
            server, "/apis/batch/v1/namespaces/default/jobs", "Job", f"report-{number}", apiVersion="batch/v1", **job
        )


def main() -> None:
    program = tmux_program()
    if program is None:
        sys.exit(f"tmux is absent: {HOW_TO_GET_TMUX}")
    watch_over()
    (port,) = free_ports(1)
    components = "apiserver,nodes,controllers,scheduler,quota,jobs"
    flags = ("--components", components, "--nodes", "4", "--no-dashboard", "--listen", f"127.0.0.1:{port}")
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(Path(folder), flags=flags, disabled_plugins="")
        path = f"{HEADGATE.parent}{os.pathsep}{os.environ['PATH']}"
        terminal = TmuxTerminal(program, {"KUBECONFIG": str(server.kubeconfig), "PATH": path}, COLUMNS, ROWS)
        try:
            create_queues(server)
            terminal.run("headgate top")
            terminal.wait_for("live", "pods created")
            create_load(server)
            terminal.press("2")
            terminal.wait_for("QueueFull", "job-report-2")
            terminal.press("1")
            # The sparklines need some samples, and some pods end meanwhile.
            terminal.wait_until(lambda screen: any(each in screen.partition("pods bound")[2] for each in "▂▃▄▅"), 120)
            terminal.wait_until(lambda screen: "Problems" in screen and screen.count("▁") > 40, 120)
            for name, (key, title) in PICTURES.items():
                terminal.press(key)
                terminal.wait_for({"1": "NAMESPACE", "2": "PLACE", "3": "SHARE"}[key])
                (IMAGES / f"{name}.svg").write_text(svg(terminal.styled_screen(), COLUMNS, title))
        finally:
            terminal.close()
            server.disconnect()
            server.stop()


if __name__ == "__main__":
    main()
