"""A kubelet for a :class:`World`: pods run when they exist, end as their annotation says, and stop when deleted.

It receives events like the controllers under test, so its actions come between their steps in any order. It is a
process of its own: its writes go straight to the server, and a crash of the controllers does not affect it. It also
binds pods, so that they stop gracefully.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from embedded import Embedded, Reply
from headgate.controllers.daemon_sets.placement import target_of
from headgate.controllers.framework.reconcile import Controller, Done, Enqueue, ReconcileSteps, WatchSpec
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.timestamps import format_time

Object = dict[str, Any]
ENDS = "test.example/ends"
"""``Succeeded`` or ``Failed``: the phase of a pod after it has run."""
HELD = "test.example/held"
"""Pods with this annotation are ignored."""
_CONTAINER = {"name": "c", "image": "i", "imageID": "", "restartCount": 0}


class Kubelet(Controller):
    name = "kubelet"

    def __init__(self, server: Embedded, node: str = "n") -> None:
        self._server = server
        self._node = node
        self._pods: dict[str, Object] = {}

    def watches(self) -> Iterable[WatchSpec]:
        fields = {"metadata.annotations", "metadata.deletionTimestamp", "spec.nodeName", "spec.schedulingGates"}
        fields.add("spec.affinity")
        return (WatchSpec(PODS, frozenset({*fields, "status.phase"})),)

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        self._pods[obj["metadata"]["uid"]] = obj
        return (Enqueue(obj["metadata"]["uid"]),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        self._pods.pop(uid, None)
        return ()

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        pod = self._pods.get(key)
        if pod is not None:
            self._sync(pod, now_s)
        yield from ()
        return Done()

    def _sync(self, pod: Object, now_s: float) -> None:
        metadata, spec = pod["metadata"], pod.get("spec") or {}
        annotations = metadata.get("annotations") or {}
        phase = (pod.get("status") or {}).get("phase", "Pending")
        path = PODS.object_path(metadata["namespace"], metadata["name"])
        if HELD in annotations or spec.get("schedulingGates"):
            return
        if not spec.get("nodeName"):
            target = {"kind": "Node", "name": target_of(pod) or self._node}
            self._server.post(
                f"{path}/binding", {"metadata": {"name": metadata["name"], "uid": metadata["uid"]}, "target": target}
            )
        elif "deletionTimestamp" in metadata:
            if phase not in ("Succeeded", "Failed"):
                self._report(pod, path, _ended("Failed", now_s))
            self._server.delete(path, {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}})
        elif phase == "Pending":
            self._report(pod, path, _running(now_s))
        elif phase == "Running" and ENDS in annotations:
            self._report(pod, path, _ended(annotations[ENDS], now_s))

    def _report(self, pod: Object, path: str, status: Object) -> Reply:
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        return self._server.patch(f"{path}/status", body, "strategic")


def _running(now_s: float) -> Object:
    now = format_time(now_s)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    running = {**_CONTAINER, "ready": True, "state": {"running": {"startedAt": now}}}
    return {"phase": "Running", "startTime": now, "conditions": [ready], "containerStatuses": [running]}


def _ended(phase: str, now_s: float) -> Object:
    now = format_time(now_s)
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": now}
    code = 0 if phase == "Succeeded" else 1
    ended = {"exitCode": code, "startedAt": now, "finishedAt": now, "reason": "Completed" if code == 0 else "Error"}
    container = {
        "name": "c",
        "image": "i",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    return {"phase": phase, "conditions": [ready], "containerStatuses": [container]}
