"""LeaderWorkerSets, and a scripted controller that creates their pods in a World.

The real controller creates the pods through StatefulSets. The script creates them itself, with the labels that they
have then: a leader has the index of its StatefulSet, a worker the index of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from embedded import Embedded
from headgate.admission.settings import AdmissionSettings
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.reconcile import ALL_FIELDS, Controller, Done, Enqueue, ReconcileSteps, WatchSpec
from headgate.controllers.stateful_sets.controller import StatefulSetController
from headgate.jobs.framework.job_controller import ManagedJobController
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.feature_gates import FeatureGates
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs.operators import a_template, definition, kind_of, settings
from unit.jobs.pods.fixtures import a_world

Object = dict[str, Any]
KIND = kind_of("LeaderWorkerSet")
PATH = KIND.resource.collection_path("ns")
PREFIX = "leaderworkerset.sigs.k8s.io"


def a_set_world(cpu: int = 2, **more: Any) -> CrashingWorld:
    features = FeatureGates(scheduling_gated_by=True)
    jobs = settings("LeaderWorkerSet")
    admission = AdmissionSettings(schedulers=frozenset(), suspends_jobs=True, features=features, jobs=jobs)
    others: tuple[Callable[[], Controller], ...] = (
        lambda: ManagedJobController(features, jobs),
        StatefulSetController,
    )
    scripts = [LeaderWorkerSets]
    return a_world(
        cpu,
        features,
        jobs,
        others=others,
        admission=admission,
        crds=[definition("LeaderWorkerSet")],
        more=scripts,
        **more,
    )


def a_set(name: str, size: int = 2, replicas: int = 1, priority: str = "", **spec: Any) -> Object:
    labels = {"kueue.x-k8s.io/queue-name": "lq"}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    leader, worker = a_template("1"), a_template("1", hostname="w")
    template: Object = {"size": size, "leaderTemplate": leader, "workerTemplate": worker}
    for each in (leader, worker):
        each["spec"]["restartPolicy"] = "Always"
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": template, **spec},
    }


class LeaderWorkerSets(Controller):
    """Creates the pods that are missing, also in place of deleted ones."""

    name = "leader worker sets"

    def __init__(self, server: Embedded) -> None:
        self._server = server
        self._objects: dict[tuple[str, str], Object] = {}
        self._is_served = False

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._is_served = KIND.resource in {row.resource for row in served.by_name.values()}
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        own = (WatchSpec(KIND.resource, ALL_FIELDS),) if self._is_served else ()
        return (*own, WatchSpec(PODS, ALL_FIELDS))

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource != PODS:
            self._objects[obj["metadata"]["namespace"], obj["metadata"]["name"]] = obj
        return self._all()

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource != PODS:
            self._objects.pop((namespace, name), None)
        return self._all()

    def _all(self) -> list[Enqueue]:
        return [Enqueue(key) for key in self._objects]

    def reconcile(self, key: tuple[str, str], now_s: float) -> ReconcileSteps:
        found = self._objects.get(key)
        if found is not None:
            for group in range(found["spec"]["replicas"]):
                for index in range(found["spec"]["leaderWorkerTemplate"]["size"]):
                    self._server.post("/api/v1/namespaces/ns/pods", _pod(found, group, index))
        yield from ()
        return Done()


def _pod(owner: Object, group: int, index: int) -> Object:
    metadata, template = owner["metadata"], owner["spec"]["leaderWorkerTemplate"]
    body = template["workerTemplate" if index else "leaderTemplate"]
    number = {f"{PREFIX}/group-index": str(group)} if index else {"apps.kubernetes.io/pod-index": str(group)}
    labels = {f"{PREFIX}/name": metadata["name"], f"{PREFIX}/worker-index": str(index), **number}
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    given = body.get("metadata") or {}
    return {
        "metadata": {
            "name": f"{metadata['name']}-{group}" + (f"-{index}" if index else ""),
            "labels": {**(given.get("labels") or {}), **labels},
            "annotations": given.get("annotations") or {},
            "ownerReferences": [{**reference, "uid": metadata["uid"], "controller": True}],
        },
        "spec": body["spec"],
    }
