"""Labels that reach the quota controller between a decision and its write: the write fits the version that it names."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from headgate.controllers.framework.effects import Effect, EffectResponse, EmitEvent, Patch
from headgate.controllers.framework.reconcile import Done, Enqueue, Result
from headgate.kube.api_resources import NAMESPACES
from headgate.quota.api.workload import Workload, read_workload
from headgate.quota.controller.activation_writes import ActivationWrite, activation_write
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from kueue_builders import START_S, Wire, a_cluster_queue, a_flavor, a_local_queue, a_workload

NOW_S = START_S + 100
LABELS = {"deactivate": {"kueue.x-k8s.io/deactivate": "true"}, "activate": {"kueue.x-k8s.io/activate": "true"}}


class Driver:
    """A quota controller without a queue of work: the test says when which key is reconciled."""

    def __init__(self) -> None:
        self.controller = QuotaController(QuotaSettings(honours_activation=True))
        self.revision = 0
        self.due: list[Enqueue] = []
        self.overtake: Callable[[], None] | None = None
        """Called once, after the next write and before its response."""
        self.workload = a_workload("w")
        for resource, obj in (
            (NAMESPACES, {"metadata": {"name": "ns", "labels": {}}}),
            (RESOURCE_FLAVORS, a_flavor()),
            (CLUSTER_QUEUES, a_cluster_queue()),
            (LOCAL_QUEUES, a_local_queue()),
        ):
            obj["metadata"].setdefault("uid", f"uid-{resource.plural}")
            self.show(resource, obj)

    def show(self, resource: Any, obj: Wire) -> None:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        self.due += self.controller.applied(resource, copy.deepcopy(obj), NOW_S)

    def label(self, event: str = "") -> None:
        self.workload["metadata"]["labels"] = dict(LABELS.get(event, {}))
        self.show(WORKLOADS, self.workload)

    def run(self, word: str) -> list[Effect]:
        """Reconciles the first due key whose type has this name; the server accepts all writes."""
        place = next(place for place, each in enumerate(self.due) if word in type(each.key).__name__)
        key: Any = self.due.pop(place).key
        steps, effects = self.controller.reconcile(key, NOW_S), []
        result: Result | None = None
        try:
            effect = next(steps)
            while True:
                effects.append(effect)
                effect = steps.send(self._respond(effect))
        except StopIteration as done:
            result = done.value
        assert isinstance(result, Done)
        self.due += result.enqueues
        return effects

    def _respond(self, effect: Effect) -> EffectResponse:
        if isinstance(effect, Patch) and effect.resource == WORKLOADS:
            precondition = effect.body["metadata"]["resourceVersion"]
            if precondition != self.workload["metadata"]["resourceVersion"]:
                return EffectResponse(409, {}, NOW_S)
            self.revision += 1
            _merge(self.workload, {**effect.body, "metadata": {**effect.body["metadata"]}})
            self.workload["metadata"]["resourceVersion"] = str(self.revision)
        response = EffectResponse(200, copy.deepcopy(self.workload), NOW_S)
        happens, self.overtake = self.overtake, None
        if happens is not None:
            happens()
        return response


def _merge(target: Wire, patch: Wire) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def patches(effects: Iterable[Effect]) -> list[Patch]:
    return [each for each in effects if isinstance(each, Patch)]


def test_an_admission_that_is_decided_and_not_written_is_withdrawn_when_the_label_arrives() -> None:
    driver = Driver()
    driver.label()
    driver.run("Cycle")
    driver.label("deactivate")
    assert patches(driver.run("Writes")) == [], "the admission is not written to the labelled version"
    (write,) = patches(driver.run("Writes"))
    assert write.body["spec"] == {"active": False}
    assert "admission" not in driver.workload.get("status", {})
    while any("Cycle" in type(each.key).__name__ for each in driver.due):
        driver.run("Cycle")
    assert driver.controller.engine.ledger.get("ns/w") is None, "it holds no quota"


def test_a_labelled_workload_is_not_considered_for_admission() -> None:
    driver = Driver()
    driver.label("deactivate")
    driver.run("Cycle")
    assert driver.controller.engine.ledger.get("ns/w") is None
    driver.run("Writes")
    driver.label("activate")
    driver.run("Writes")
    driver.run("Cycle")
    assert driver.controller.engine.ledger.get("ns/w") is not None


def test_a_label_that_is_set_again_before_the_response_to_its_removal_is_removed_again() -> None:
    driver, labelled = Driver(), list[str]()

    def overtake() -> None:
        labelled.append("again")
        driver.label("deactivate")

    driver.label("deactivate")
    driver.overtake = overtake
    while any("Writes" in type(each.key).__name__ for each in driver.due):
        driver.run("Writes")
    assert labelled == ["again"]
    assert driver.workload["metadata"]["labels"] == {}


def test_a_transition_is_that_of_the_version_that_is_written_to() -> None:
    driver = Driver()
    driver.label("deactivate")
    driver.label("activate")
    (write,) = patches(driver.run("Writes"))
    assert "spec" not in write.body, "the later label counts"
    assert driver.workload["metadata"]["labels"] == {}


def test_the_same_label_on_a_later_version_is_consumed_again() -> None:
    driver = Driver()
    driver.label("deactivate")
    driver.run("Writes")
    assert driver.workload["spec"]["active"] is False
    driver.label("deactivate")
    (write, *_) = patches(driver.run("Writes"))
    assert write.body["metadata"]["labels"] == {"kueue.x-k8s.io/activate": None, "kueue.x-k8s.io/deactivate": None}


@pytest.mark.parametrize("owned", [True, False])
def test_events_are_about_the_workload_and_its_job(owned: bool) -> None:
    wire = a_workload("w")
    wire["metadata"]["labels"] = LABELS["deactivate"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u", "controller": True}
    wire["metadata"]["ownerReferences"] = [owner] if owned else []
    decoded = read_workload(wire)
    assert isinstance(decoded, Workload)
    write = activation_write(wire, decoded, is_enabled=True)
    assert [each.about["kind"] for each in write.events] == ["Workload", *(["Job"] if owned else [])]
    assert all(isinstance(each, EmitEvent) and each.reason == "DeactivatedByLabel" for each in write.events)


def test_there_is_no_write_for_a_workload_without_a_label() -> None:
    wire = a_workload("w")
    decoded = read_workload(wire)
    assert isinstance(decoded, Workload)
    assert activation_write(wire, decoded, is_enabled=True) == ActivationWrite()
    assert activation_write(wire, decoded, is_enabled=False) == ActivationWrite()
