"""Objects that users create in a skewed cluster."""

from __future__ import annotations

from typing import Any

from headgate.capacity.names import GROUP_NAMES, OPT_IN, QUEUE_NAME, STAMP
from headgate.jobs.names import QUEUE_NAME as LOCAL_QUEUE

Object = dict[str, Any]
ABSENT = {"example.com/absent": "true"}
"""A label that no node has at first."""
GRACE_S = 60


def queue_pod(name: str, cpu: str = "1", scheduler: str = "headgate", group: str = "", **spec: Any) -> Object:
    """A pod of the Queue ``q`` that opts in to the queue gate."""
    annotations = {QUEUE_NAME: "q", OPT_IN: "true", **({GROUP_NAMES[0]: group} if group else {})}
    annotations |= spec.pop("annotations", {})
    return _pod(name, cpu, {"annotations": annotations}, schedulerName=scheduler, **spec)


def quota_pod(name: str, cpu: str = "1", **spec: Any) -> Object:
    """A pod of the LocalQueue ``lq``."""
    metadata = {"labels": {LOCAL_QUEUE: "lq"}, "annotations": spec.pop("annotations", {})}
    return _pod(name, cpu, metadata, terminationGracePeriodSeconds=GRACE_S, **spec)


def plain_pod(name: str, cpu: str = "1", **spec: Any) -> Object:
    return _pod(name, cpu, {}, **spec)


def job(name: str, cpu: str = "1", queue: str = "lq", **more: Any) -> Object:
    """A job of a LocalQueue; it names none if ``queue`` is empty."""
    labels = {**({LOCAL_QUEUE: queue} if queue else {}), **more.pop("labels", {})}
    metadata = {"name": name, "labels": labels, "annotations": more.pop("annotations", {})}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE_S, "containers": _containers(cpu)}
    return {"metadata": metadata, "spec": {"template": {"spec": pod}, **more}}


def _pod(name: str, cpu: str, metadata: Object, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"restartPolicy": "Never", "containers": _containers(cpu), **spec},
    }


def _containers(cpu: str) -> list[Object]:
    return [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]


def is_promised(pod: Object) -> bool:
    return STAMP in (pod["metadata"].get("annotations") or {})
