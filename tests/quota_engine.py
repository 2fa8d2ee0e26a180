"""A quota engine with a small API for tests: effects are written to the objects and shown to the engine again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from headgate.kube.resource_amounts import as_text
from headgate.kube.timestamps import format_time
from headgate.quota.api.quota_reservation import reservation_text
from headgate.quota.api.workload import AdmissionCheckState, Workload, read_workload
from headgate.quota.controller.activation_writes import activation_write
from headgate.quota.effects import (
    Admit,
    ConsumeActivationLabels,
    Deactivate,
    Effect,
    EmitWorkloadEvent,
    Evict,
    PutOff,
    Release,
    Requeue,
    SetChecks,
    SetCondition,
)
from headgate.quota.engine import QuotaEngine, QuotaSettings
from kueue_builders import START_S, a_cluster_queue, a_cohort, a_flavor, a_local_queue, a_workload

Wire = dict[str, Any]


class Api:
    """``written`` is what was decided since it was last asked; ``lag`` keeps the engine from seeing its own writes."""

    def __init__(self, settings: QuotaSettings | None = None) -> None:
        self.settings = settings or QuotaSettings()
        self.engine = QuotaEngine(self.settings)
        self.now_s = START_S
        self.revision = 0
        self.objects: dict[tuple[str, str], Wire] = {}
        self.events: list[EmitWorkloadEvent] = []
        self.lag = False
        self.namespace("ns")
        self.flavor("default")

    # Objects.

    def flavor(self, name: str, **more: Any) -> list[Effect]:
        return self._put("flavor", name, a_flavor(name, **more))

    def queue(self, name: str = "cq", *listed: Any, local: str = "lq", **spec: Any) -> list[Effect]:
        """With a local queue that leads there."""
        effects = self._put("cluster_queue", name, a_cluster_queue(name, *listed, **spec))
        return effects + self.local(local, name) if local else effects

    def local(self, name: str, cluster_queue: str, **spec: Any) -> list[Effect]:
        return self._put("local_queue", f"ns/{name}", a_local_queue(name, cluster_queue, **spec))

    def cohort(self, name: str, parent: str = "", *listed: Any) -> list[Effect]:
        return self._put("cohort", name, a_cohort(name, parent, *listed))

    def namespace(self, name: str, **labels: str) -> list[Effect]:
        self.objects["namespace", name] = labels
        return self.perform(self.engine.namespace_applied(name, labels, self.now_s))

    def submit(self, name: str, *pod_sets: Wire, **more: Any) -> list[Effect]:
        at_s = more.pop("at_s", self.now_s - START_S)
        return self._put("workload", f"ns/{name}", a_workload(name, *pod_sets, at_s=at_s, **more))

    def submit_object(self, wire: Wire) -> list[Effect]:
        return self._put("workload", f"ns/{wire['metadata']['name']}", wire)

    def change(self, name: str, change: Callable[[Wire], Any]) -> list[Effect]:
        """Another client writes to a workload."""
        wire = copy.deepcopy(self.objects["workload", f"ns/{name}"])
        change(wire)
        return self._put("workload", f"ns/{name}", wire)

    def pod(self, name: str, workload: str, cpu: int = 1, **metadata: Any) -> Wire:
        """A pod on a node that was started with the quota that the workload holds now. It is shown with ``show``."""
        owner = self.objects["workload", f"ns/{workload}"]
        stamp = {"headgate.dev/quota-reservation": reservation_text(owner, "main")}
        container = {"resources": {"requests": {"cpu": str(cpu)}}}
        labels = {"kueue.x-k8s.io/queue-name": owner["spec"]["queueName"]}
        shown = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "annotations": stamp, "labels": labels}
        return {
            "metadata": {**shown, **metadata},
            "spec": {"nodeName": "n", "containers": [container]},
            "status": {"phase": "Running"},
        }

    def show(self, pod: Wire, **metadata: Any) -> None:
        wire = {**pod, "metadata": {**pod["metadata"], **metadata}}
        self.objects["pod", pod["metadata"]["uid"]] = wire
        self.engine.pod_applied(wire)

    def terminate(self, pod: Wire, grace_s: int = 60) -> None:
        self.show(pod, deletionTimestamp=format_time(self.now_s + grace_s), deletionGracePeriodSeconds=grace_s)

    def remove(self, kind: str, name: str) -> list[Effect]:
        self.objects.pop((kind, name), None)
        return self.perform(getattr(self.engine, f"{kind}_removed")(name, self.now_s))

    def finish(self, name: str) -> list[Effect]:
        return self.change(name, lambda wire: self._condition(wire, "Finished", True, "Succeeded", ""))

    def gone(self, name: str) -> list[Effect]:
        """The pods of an evicted workload have ended: its quota is given back, as the job's reconcile does."""

        def release(wire: Wire) -> None:
            evicted = self._find(wire, "Evicted") or {}
            wire["status"].pop("admission", None)
            is_requeued = evicted.get("reason") in ("Preempted", "NodeFailures")
            self._condition(wire, "Requeued", is_requeued, evicted.get("reason", ""), "")
            self._condition(wire, "QuotaReserved", False, "PendingEvaluation", evicted.get("message", ""))
            self._condition(wire, "Admitted", False, "NoReservation", "The workload has no reservation")

        return self.change(name, release)

    def cycle(self, rounds: int | None = None) -> list[Effect]:
        return self.perform(self.engine.run_cycle(self.now_s, rounds))

    def pass_s(self, seconds: float) -> list[Effect]:
        self.now_s += seconds
        return self.cycle()

    def catch_up(self) -> None:
        """The watch shows everything that was written meanwhile."""
        self.lag = False
        for (kind, _), wire in sorted(self.objects.items(), key=lambda item: item[0]):
            if kind == "workload":
                self.perform(self.engine.workload_applied(wire, self.now_s))

    def restart(self) -> None:
        """Another engine, from what the API shows."""
        self.engine = QuotaEngine(self.settings)
        for (kind, name), wire in self.objects.items():
            if kind == "namespace":
                self.engine.namespace_applied(name, wire, self.now_s)
        for kind in ("flavor", "cohort", "cluster_queue", "local_queue", "workload"):
            for (each, _), wire in sorted(self.objects.items(), key=lambda item: item[0]):
                if each == kind:
                    self.perform(getattr(self.engine, f"{kind}_applied")(wire, self.now_s))
        for (kind, _), wire in self.objects.items():
            if kind == "pod":
                self.engine.pod_applied(wire)

    # What it came to.

    def admitted(self) -> list[str]:
        return sorted(
            name.removeprefix("ns/")
            for (kind, name), wire in self.objects.items()
            if kind == "workload" and wire["status"].get("admission") and not self._find(wire, "Finished")
        )

    def condition(self, name: str, type_: str = "QuotaReserved") -> tuple[str, str, str]:
        found = self._find(self.objects["workload", f"ns/{name}"], type_) or {}
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")

    def perform(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, EmitWorkloadEvent):
                self.events.append(effect)
                continue
            wire = copy.deepcopy(self.objects["workload", effect.key])
            assert wire["metadata"]["uid"] == effect.uid
            self._write(wire, effect)
            self.revision += 1
            wire["metadata"]["resourceVersion"] = str(self.revision)
            self.objects["workload", effect.key] = wire
            self.engine.written(effect, self.revision)
            if not self.lag:
                effects = effects + self.perform(self.engine.workload_applied(wire, self.now_s))
        return effects

    def _put(self, kind: str, name: str, wire: Wire) -> list[Effect]:
        self.revision += 1
        wire["metadata"]["resourceVersion"] = str(self.revision)
        self.objects[kind, name] = wire
        return self.perform(getattr(self.engine, f"{kind}_applied")(wire, self.now_s))

    def _write(self, wire: Wire, effect: Effect) -> None:
        status = wire["status"]
        match effect:
            case Admit():
                status["admission"] = {
                    "clusterQueue": effect.admission.cluster_queue,
                    "podSetAssignments": [
                        {
                            "name": each.name,
                            "flavors": dict(each.flavors),
                            "resourceUsage": {name: as_text(name, amount) for name, amount in each.usage.items()},
                            "count": each.count,
                        }
                        for each in effect.admission.pod_sets
                    ],
                }
                self._condition(wire, "QuotaReserved", True, "QuotaReserved", "")
                for each in ("Evicted", "Preempted"):
                    if self._find(wire, each):
                        self._condition(wire, each, False, "QuotaReserved", "")
                if effect.is_admitted:
                    self._condition(wire, "Admitted", True, "Admitted", "The workload is admitted")
                if effect.waits_for:
                    said = effect.waits_for
                    self._condition(wire, "WaitingForTerminatingPods", True, "QuotaReleasedEarly", said)
            case Evict():
                self._condition(wire, "Evicted", True, effect.reason, effect.message)
                if effect.preempted:
                    self._condition(wire, "Preempted", True, effect.preempted, effect.message)
                if effect.requeue_at_s is not None:
                    at = format_time(effect.requeue_at_s)
                    status["requeueState"] = {"count": effect.requeue_count, "requeueAt": at}
                if effect.checks:
                    status["admissionChecks"] = [_check(each) for each in effect.checks]
            case Release():
                status.pop("admission", None)
                self._condition(wire, "QuotaReserved", False, effect.reason, effect.message)
                self._condition(wire, "Admitted", False, "NoReservation", "The workload has no reservation")
            case SetCondition():
                self._condition(wire, effect.type, effect.is_true, effect.reason, effect.message)
            case Requeue():
                self._condition(wire, "Requeued", True, effect.reason, effect.message)
                status.get("requeueState", {}).pop("requeueAt", None)
            case PutOff():
                status.setdefault("requeueState", {})["requeueAt"] = format_time(effect.until_s)
            case SetChecks():
                status["admissionChecks"] = [_check(each) for each in effect.checks]
            case Deactivate():
                wire["spec"]["active"] = False
            case ConsumeActivationLabels():
                self._consume_labels(wire, effect.is_enabled)

    def _consume_labels(self, wire: Wire, is_enabled: bool) -> None:
        workload = read_workload(wire)
        assert isinstance(workload, Workload)
        write = activation_write(wire, workload, is_enabled)
        wire["spec"].update(write.spec)
        for field, changes in write.metadata.items():
            merged = {**wire["metadata"].get(field, {}), **changes}
            wire["metadata"][field] = {key: value for key, value in merged.items() if value is not None}

    def _find(self, wire: Wire, type_: str) -> Wire | None:
        return next((each for each in wire["status"].get("conditions", []) if each["type"] == type_), None)

    def _condition(self, wire: Wire, type_: str, is_true: bool, reason: str, message: str) -> None:
        status = "True" if is_true else "False"
        old = self._find(wire, type_)
        since = old["lastTransitionTime"] if old and old["status"] == status else format_time(self.now_s)
        new = {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
        kept = [each for each in wire["status"].get("conditions", []) if each["type"] != type_]
        wire["status"]["conditions"] = [*kept, new]


def _check(state: AdmissionCheckState) -> Wire:
    return {
        "name": state.name,
        "state": state.state,
        "message": state.message,
        "lastTransitionTime": format_time(state.since_s),
        "retryCount": state.retries,
    }
