"""Watches every pod of a server with workloads from the start and checks every revision against their guarantees.

Every pod has a controller from its first revision on. An app never has more active pods than allowed and, once it has
been available, never fewer ready pods than guaranteed. No index of an indexed Job has two active pods.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.pod_watch import PodWatch
from harness.server import Server

Object = dict[str, Any]
INDEX = "batch.kubernetes.io/job-completion-index"
_FINISHED = ("Succeeded", "Failed")


class WorkloadAudit(PodWatch):
    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.at_most: dict[str, int] = {}
        """By the label ``app``: how many active pods there may be."""
        self.at_least: dict[str, int] = {}
        """How many of them are ready, always, from when that is said here."""
        self.changes = 0
        self.made = 0

    def of(self, app: str) -> list[Object]:
        return [pod for pod in list(self.pods.values()) if app_of(pod) == app]

    def judge(self, kind: str, pod: Object) -> None:
        self.changes += 1
        self.made += kind == "ADDED"
        name, app = pod["metadata"]["name"], app_of(pod)
        if not any(each.get("controller") for each in pod["metadata"].get("ownerReferences") or ()):
            self._object(f"{name} belongs to nobody")
        siblings = self.of(app)
        active = sum(map(is_active, siblings))
        if app in self.at_most and active > self.at_most[app]:
            self._object(f"{app} has {active} active pods, and may have {self.at_most[app]}")
        ready = sum(is_active(each) and is_ready(each) for each in siblings)
        if app in self.at_least and ready < self.at_least[app]:
            self._object(f"{app} has {ready} ready pods, and promised {self.at_least[app]}")
        for index, count in Counter(_index(each) for each in siblings if is_active(each)).items():
            if index is not None and count > 1:
                self._object(f"{count} active pods of {index}")

    def _object(self, problem: str) -> None:
        self.problems.append(f"at {self._revision}: {problem}")


def app_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("app", ""))


def is_active(pod: Object) -> bool:
    return pod["status"].get("phase") not in _FINISHED and "deletionTimestamp" not in pod["metadata"]


def is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _index(pod: Object) -> tuple[str, str] | None:
    index = (pod["metadata"].get("annotations") or {}).get(INDEX)
    owner = (pod["metadata"].get("ownerReferences") or [{}])[0].get("uid", "")
    return None if index is None else (owner, index)
