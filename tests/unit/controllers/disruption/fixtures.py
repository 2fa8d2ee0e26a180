"""Budgets on the embedded server with their controller, and pods that a test makes ready, evicts and deletes."""

from __future__ import annotations

from typing import Any

from embedded import Reply
from headgate.controllers.disruption.controller import DisruptionController
from headgate.controllers.framework.reconcile import Controller
from unit.controllers import workload_fixtures
from unit.controllers.workload_fixtures import PODS, a_world, get, put
from unit.controllers.world import Object, World

BUDGETS = "/apis/policy/v1/namespaces/a/poddisruptionbudgets"


class Stage:
    def __init__(self, *others: type[Controller]) -> None:
        self.world: World = a_world(DisruptionController, *others)
        self.server = self.world.server

    # -- acting ----------------------------------------------------------------------------------------------------

    def budget(self, name: str = "b", /, selector: Object | None = None, **spec: Any) -> Object:
        wanted = {"matchLabels": {"app": "web"}} if selector is None else selector
        made = put(self.world, BUDGETS, {"metadata": {"name": name}, "spec": {"selector": wanted, **spec}})
        self.look()
        return made

    def pod(self, name: str, /, owner: Object | None = None, ready: bool = True, **labels: str) -> Object:
        metadata: Object = {"name": name, "labels": labels or {"app": "web"}}
        if owner is not None:
            metadata["ownerReferences"] = [reference(owner)]
        made = put(self.world, PODS, {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        workload_fixtures.run(self.world, name, ready=ready)
        return made

    def pods(self, *names: str, owner: Object | None = None) -> None:
        for name in names:
            self.pod(name, owner)
        self.look()

    def owner(self, plural: str, kind: str, name: str, replicas: int, parent: Object | None = None) -> Object:
        """An object with a scale subresource, without a controller that creates its pods."""
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec: Object = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
        spec |= {} if plural == "daemonsets" else {"replicas": replicas}
        spec |= {"serviceName": name} if plural == "statefulsets" else {}
        metadata: Object = {"name": name}
        if parent is not None:
            metadata["ownerReferences"] = [reference(parent)]
        body = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
        return put(self.world, f"/apis/apps/v1/namespaces/a/{plural}", body)

    def evict(self, name: str) -> Reply:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        return self.server.post(f"{PODS}/{name}/eviction", body)

    def look(self) -> None:
        """Until what has happened has been counted."""
        self.world.advance(1.0)

    # -- seeing ----------------------------------------------------------------------------------------------------

    def status(self, name: str = "b") -> Object:
        status: Object = get(self.world, f"{BUDGETS}/{name}")["status"]
        return status

    def numbers(self, name: str = "b") -> tuple[int, int, int, int]:
        """Expected, desired, healthy, allowed."""
        status = self.status(name)
        expected, wanted, healthy = status["expectedPods"], status["desiredHealthy"], status["currentHealthy"]
        return expected, wanted, healthy, status["disruptionsAllowed"]

    def condition(self, name: str = "b") -> tuple[str, str, str]:
        [found] = self.status(name)["conditions"]
        return found["status"], found["reason"], found["message"]

    def events(self) -> list[str]:
        return workload_fixtures.reasons(self.world)

    def said(self, reason: str) -> str:
        return next(each.message for each in self.world.emitted if each.reason == reason)


def reference(owner: Object) -> Object:
    metadata = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, "controller": True}
