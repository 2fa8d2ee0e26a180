"""Gated pods that wait for quota, alone and in groups of two, and a user that replaces preempted ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from headgate.jobs.names import ADMISSION_GATE, MANAGED, POD_GROUP_NAME, PRIORITY_CLASS, QUEUE_NAME, TOTAL_COUNT
from headgate.kube import conditions
from headgate.quota.names import FINISHED

Object = dict[str, Any]
Ask = Callable[[str, str, Object], None]

PODS = "/api/v1/namespaces/default/pods"
MOST = 6
SIZE = 2
_FINISHED = ("Succeeded", "Failed")


class PodLoad:
    """``listed`` and ``workloads`` give all pods and all Workloads there are."""

    def __init__(
        self,
        ask: Ask,
        listed: Callable[[], list[Object]],
        workloads: Callable[[], list[Object]],
        chance: random.Random,
    ) -> None:
        self._ask = ask
        self._listed = listed
        self._workloads = workloads
        self._chance = chance
        self._made = 0
        self._groups: dict[str, Object] = {}
        """Labels by group, of those that are not done."""

    def turn(self) -> None:
        pods = self._mine()
        if sum(not _is_over(each) for each in pods) < MOST:
            self._made += 1
            labels = {QUEUE_NAME: self._chance.choice("ab"), PRIORITY_CLASS: self._chance.choice(("low", "high"))}
            if self._chance.random() < 0.5:
                self._create(f"pod-{self._made}", labels)
            else:
                group = f"group-{self._made}"
                self._groups[group] = {**labels, POD_GROUP_NAME: group}
        self._tend(pods)

    def are_done(self) -> bool:
        """All existing pods have ended; an evicted pod of a group is replaced until the group has finished."""
        pods = self._mine()
        self._tend(pods)
        return not self._groups and all(map(_is_over, pods))

    def remove_all(self) -> None:
        for each in self._mine():
            self._ask("DELETE", f"{PODS}/{each['metadata']['name']}", {"gracePeriodSeconds": 0})

    def _tend(self, pods: list[Object]) -> None:
        """A pod that succeeded after its deletion has ended, although it no longer exists: the Workload says when a
        group is finished, and pods that are created after that are deleted as excess pods."""
        finished = {each["metadata"]["name"] for each in self._workloads() if _is_finished(each)}
        for group, labels in list(self._groups.items()):
            members = [each for each in pods if each["metadata"]["labels"].get(POD_GROUP_NAME) == group]
            if group in finished or sum(each["status"].get("phase") == "Succeeded" for each in members) == SIZE:
                del self._groups[group]
                continue
            there = [each for each in members if not _is_lost(each)]
            for _ in range(SIZE - len(there)):
                self._made += 1
                self._create(f"{group}-{self._made}", labels)

    def _create(self, name: str, labels: Object) -> None:
        container = {"name": "c", "image": "registry.example/c", "resources": {"requests": {"cpu": "1"}}}
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "schedulingGates": [{"name": ADMISSION_GATE}],
        }
        runs = {"headgate.dev/run-for": f"{self._chance.choice((100, 400, 1500))}ms", TOTAL_COUNT: str(SIZE)}
        metadata = {"name": name, "labels": {**labels, MANAGED: "true"}, "annotations": runs, "finalizers": [MANAGED]}
        self._ask("POST", PODS, {"metadata": metadata, "spec": spec})

    def _mine(self) -> list[Object]:
        return [each for each in self._listed() if MANAGED in (each["metadata"].get("labels") or {})]


def _is_finished(workload: Object) -> bool:
    return conditions.is_true((workload.get("status") or {}).get("conditions"), FINISHED)


def _is_over(pod: Object) -> bool:
    return pod["status"].get("phase") in _FINISHED


def _is_lost(pod: Object) -> bool:
    """It fills no place of its group: it failed, or has to go before it is done."""
    phase = pod["status"].get("phase")
    return phase == "Failed" or (phase != "Succeeded" and "deletionTimestamp" in pod["metadata"])
