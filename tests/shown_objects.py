"""Pods and jobs that wait in queues, for the suites of the page and of `headgate top`."""

from __future__ import annotations

from typing import Any

from headgate.capacity.names import OPT_IN, QUEUE_NAME


def a_pod(name: str, cpu: str = "1", queue: str = "q", gates: tuple[str, ...] = ()) -> dict[str, Any]:
    annotations = {QUEUE_NAME: queue, OPT_IN: "true", "headgate.dev/run-for": "5h"}
    container = {"name": "main", "image": "job", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "schedulerName": "headgate",
            "restartPolicy": "Never",
            "containers": [container],
            "schedulingGates": [{"name": each} for each in gates],
        },
    }


def a_job(name: str) -> dict[str, Any]:
    template = a_pod(name, "2")
    del template["spec"]["schedulerName"]
    template = {"metadata": {"annotations": {"headgate.dev/run-for": "5h"}}, "spec": template["spec"]}
    metadata = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "kq"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
