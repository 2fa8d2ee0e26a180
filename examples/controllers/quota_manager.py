"""A quota manager in one file: pods wait behind a scheduling gate until their namespace has quota for them.

ResourceQuota rejects a pod that exceeds the quota of its namespace, and the client has to create it again and again.
With this controller the pod exists and waits. A pod opts in with the scheduling gate ``example.com/quota``, which its
author, a template or a webhook sets (``dependency_ready.py`` shows such a webhook). The limits are in one ConfigMap,
one entry for each namespace; either part of an entry may be missing:

    data:
      team-a: pods=2, cpu=1500m

Every pod of the namespace that does not have the gate and has not ended counts, whether it had the gate or not. The
gate is removed in the order of creation. A pod that does not fit holds back the pods behind it, so that large pods do
not starve; a pod that exceeds the whole limit is skipped. Both get an Event. In a namespace without a valid entry, and
without the ConfigMap, all pods wait: an accident must not release everything at once.

Start it, with the rights of ``quota-manager-rights.yaml``; ``quota-manager-sample.yaml`` has limits and pods:

    kubectl apply -f quota-manager-rights.yaml -f quota-manager-sample.yaml
    python quota_manager.py --kubeconfig .headgate/kubeconfig

All state is in the API, so the process may be killed at any time: at its start it lists the pods and continues. Run
one copy. Two copies never remove a gate twice, but together they may release more than the limit.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headgate.client.gate_lifting import GateLiftOutcome, GateLiftResult, lift
from headgate.client.gated_pods import GatedPod
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.event_recorder import EventRecorder, EventToEmit
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied, ObjectDeleted
from headgate.client.io.writer import Writer
from headgate.http.transport import Transport, Unreachable
from headgate.kube import quantity
from headgate.kube.pods.requests import pod_requests
from headgate.kube.quantity import ZERO, Quantity
from headgate.kube.scheduling_gates import gate_names
from headgate.runtime.work_queue import WorkQueue

GATE = "example.com/quota"
WORKERS = 4
"""How many gates are removed at the same time."""
PLAN_DELAY_S = 0.05
"""A plan looks at all pods of a namespace, so it is made once for all watch events of this time."""
POD_FIELDS = (
    *("metadata.creationTimestamp", "metadata.deletionTimestamp", "status.phase", "spec.schedulingGates"),
    *("spec.containers", "spec.initContainers", "spec.overhead", "spec.resources"),  # for the requests
)
Object = dict[str, Any]


# -- decisions: no I/O -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Amount:
    """Pods and CPU. In a limit, None means that there is no limit."""

    pods: int | None = None
    cpu: Quantity | None = None

    def fits_in(self, limit: Amount) -> bool:
        return (limit.pods is None or (self.pods or 0) <= limit.pods) and (
            limit.cpu is None or (self.cpu or ZERO) <= limit.cpu
        )

    def plus(self, cpu: Quantity) -> Amount:
        """The same with one more pod."""
        return Amount((self.pods or 0) + 1, (self.cpu or ZERO) + cpu)

    def __str__(self) -> str:
        parts = [
            f"pods={self.pods}" if self.pods is not None else "",
            f"cpu={self.cpu}" if self.cpu is not None else "",
        ]
        return ", ".join(filter(None, parts))


def parse_limit(text: str) -> Amount | str:
    """A limit such as ``pods=2, cpu=1500m``, or what is wrong with it."""
    found: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or name not in ("pods", "cpu") or name in found:
            return f"{part!r} is not pods=NUMBER or cpu=QUANTITY"
        found[name] = value
    if not found:
        return "it is empty: write pods=NUMBER, cpu=QUANTITY, or both"
    if "pods" in found and not re.fullmatch("[0-9]{1,9}", found["pods"]):
        return f"pods={found['pods']} is not a number"
    cpu = quantity.parse(found["cpu"]) if "cpu" in found else None
    if isinstance(cpu, str) or (cpu is not None and cpu < ZERO):
        return f"cpu={found['cpu']} is not a quantity"
    return Amount(int(found["pods"]) if "pods" in found else None, cpu)


@dataclass(frozen=True)
class PodRecord:
    pod: GatedPod
    cpu: Quantity
    is_finished: bool
    is_terminating: bool

    @property
    def has_gate(self) -> bool:
        return GATE in self.pod.gates


@dataclass(frozen=True)
class Plan:
    """What to do for a namespace: gates to remove, and the Events (reason and message) of pods that wait."""

    releases: list[GatedPod] = field(default_factory=list)
    waits: list[tuple[GatedPod, str, str]] = field(default_factory=list)


class Quota:
    """The limits and the pods. Watch events go in and name the namespaces to plan again; plans come out."""

    def __init__(self, limits: str) -> None:
        self._limits_key = tuple(limits.split("/"))
        self._limits_name = limits
        self._entries: dict[str, str] | None = None
        self._pods: dict[str, dict[str, PodRecord]] = {}  # by namespace and uid
        self._reserved: set[str] = set()
        """The uids of pods whose gate is or was removed by this process. They count as released while the watch still
        shows the gate: a late watch event, or a response that was lost, must not release another pod in their place."""

    def on_pod(self, event: InformerEvent) -> set[str]:
        if isinstance(event, ObjectDeleted):
            self._pods.get(event.namespace, {}).pop(event.uid, None)
            self._reserved.discard(event.uid)
            return {event.namespace}
        if not isinstance(event, ObjectApplied):
            return set()
        wire = event.object
        metadata = wire["metadata"]
        pod = GatedPod(
            metadata["namespace"], metadata["name"], metadata["uid"], metadata["creationTimestamp"], gate_names(wire)
        )
        finished = (wire.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        cpu = pod_requests(wire, spec_only=True).get("cpu", ZERO)
        record = PodRecord(pod, cpu, finished, bool(metadata.get("deletionTimestamp")))
        self._pods.setdefault(pod.namespace, {})[pod.uid] = record
        return {pod.namespace}

    def on_config_map(self, event: InformerEvent) -> set[str]:
        if isinstance(event, ObjectDeleted) and (event.namespace, event.name) == self._limits_key:
            self._entries = None
        if isinstance(event, ObjectApplied):
            self._entries = event.object.get("data") or {}
        return set(self._pods)

    def plan(self, namespace: str) -> Plan:
        """What is released is reserved from now on: the caller has to remove the gate, however often it fails."""
        plan = Plan()
        records = self._pods.get(namespace, {}).values()
        used = Amount()
        for each in records:
            if not each.is_finished and self._counts(each):
                used = used.plus(each.cpu)
        waiting = [each for each in records if not (self._counts(each) or each.is_finished or each.is_terminating)]
        limit = self._limit_of(namespace)
        is_blocked = False
        for each in sorted(waiting, key=lambda each: (each.pod.created, each.pod.name)):
            if isinstance(limit, str):
                plan.waits.append((each.pod, "NoQuota", limit))
            elif not Amount().plus(each.cpu).fits_in(limit):
                text = f"the pod requests cpu={each.cpu}, and the limit of namespace {namespace} is {limit}"
                plan.waits.append(
                    (each.pod, "ExceedsQuota", f"{text}: raise the limit in ConfigMap {self._limits_name}")
                )
            elif is_blocked or not used.plus(each.cpu).fits_in(limit):
                is_blocked = True
                text = f"namespace {namespace} uses its quota ({limit}): pods are released in the order of creation"
                plan.waits.append((each.pod, "WaitingForQuota", text))
            else:
                used = used.plus(each.cpu)
                self._reserved.add(each.pod.uid)
                plan.releases.append(each.pod)
        return plan

    def _counts(self, record: PodRecord) -> bool:
        return not record.has_gate or record.pod.uid in self._reserved

    def _limit_of(self, namespace: str) -> Amount | str:
        """The limit, or why there is none."""
        if self._entries is None:
            return f"the ConfigMap {self._limits_name} does not exist: create it with an entry for {namespace}"
        if namespace not in self._entries:
            return f"the ConfigMap {self._limits_name} has no entry for namespace {namespace}: add one"
        limit = parse_limit(self._entries[namespace])
        return f"ConfigMap {self._limits_name}, entry {namespace}: {limit}" if isinstance(limit, str) else limit


# -- performing them ---------------------------------------------------------------------------------------------------


class QuotaManager:
    """Watches pods and the ConfigMap, plans one namespace at a time, and removes the gates of its plans."""

    def __init__(self, transport: Transport, limits: str) -> None:
        self._transport = transport
        self._limits_namespace, _, self._limits_name = limits.partition("/")
        self._quota = Quota(limits)
        self._namespaces: WorkQueue[str] = WorkQueue()
        self._removals: WorkQueue[GatedPod] = WorkQueue()
        self._unsynced = {"pods", "configmaps"}
        self._synced = asyncio.Event()
        self._emitted: dict[str, tuple[str, str]] = {}  # the last Event of each pod, by uid
        writer = Writer(transport, jitter=random.random, sleep=asyncio.sleep, attempts=2)
        self._events = EventRecorder(writer)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        configs = f"/api/v1/namespaces/{self._limits_namespace}/configmaps"
        query = {"fieldSelector": f"metadata.name={self._limits_name}"}
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer("configmaps", configs, self._quota.on_config_map, ("data",), query).run())
            tasks.create_task(self._informer("pods", "/api/v1/pods", self._quota.on_pod, POD_FIELDS, {}).run())
            tasks.create_task(self._events.run())
            await self._synced.wait()  # without all pods and the limits, a plan would be wrong
            say("ready")
            tasks.create_task(self._plan())
            for _ in range(WORKERS):
                tasks.create_task(self._remove_gates())

    def _informer(
        self,
        kind: str,
        path: str,
        handle: Callable[[InformerEvent], set[str]],
        fields: tuple[str, ...],
        query: dict[str, str],
    ) -> Informer:
        def deliver(event: InformerEvent) -> None:
            for namespace in handle(event):
                self._namespaces.add(namespace, PLAN_DELAY_S)
            if isinstance(event, ObjectDeleted):
                self._emitted.pop(event.uid, None)
            if isinstance(event, ListSynced):
                self._unsynced.discard(kind)
                if not self._unsynced:
                    self._synced.set()

        return Informer(
            self._transport,
            path,
            deliver,
            jitter=random.random,
            sleep=asyncio.sleep,
            query=query,
            fields=fields,
            report=say,
        )

    async def _plan(self) -> None:
        while True:
            namespace = await self._namespaces.get()
            plan = self._quota.plan(namespace)
            for pod in plan.releases:
                self._removals.add(pod)
            for waiting, reason, message in plan.waits:
                self._emit(waiting, reason, message)
            self._namespaces.done(namespace)

    async def _remove_gates(self) -> None:
        while True:
            pod = await self._removals.get()
            result = await remove_gate(self._transport, pod)
            say(f"{pod.key}: {result.outcome.value} {result.detail}".rstrip())
            if result.outcome is GateLiftOutcome.FAILED:
                # No watch event will come of it. Until it succeeds, the pod keeps its share of the quota.
                self._emit(pod, "ReleaseFailed", f"the gate {GATE} cannot be removed: {result.detail}")
                self._removals.add_rate_limited(pod, random.random())
            else:
                self._removals.forget(pod)
            self._removals.done(pod)

    def _emit(self, pod: GatedPod, reason: str, message: str) -> None:
        """Emits an Event about the pod, unless it was the last one."""
        if self._emitted.get(pod.uid) == (reason, message):
            return
        self._emitted[pod.uid] = (reason, message)
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        kind = "Normal" if reason == "WaitingForQuota" else "Warning"
        self._events.emit(EventToEmit(about, reason, message, kind, "quota-manager"))


async def remove_gate(transport: Transport, pod: GatedPod) -> GateLiftResult:
    """Performs the steps of ``lift``: it removes only this gate, only from the pod with this uid, and reads the pod
    again after a conflict or a lost response."""
    steps = lift(GATE, pod)
    step = next(steps)
    while True:
        await asyncio.sleep(step.wait_s)
        try:
            response = await transport.request(step.request)
        except Unreachable:
            response = None
        try:
            step = steps.send(response)
        except StopIteration as finished:
            result: GateLiftResult = finished.value
            return result


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", default="", help="the cluster [default: as kubectl finds it]")
    parser.add_argument(
        "--limits",
        default="kube-system/quota-limits",
        metavar="NAMESPACE/NAME",
        help="the ConfigMap with the limits [default: %(default)s]",
    )
    options = parser.parse_args()
    if options.limits.count("/") != 1:
        parser.error(f"--limits {options.limits}: write NAMESPACE/NAME")
    access = find_rest_config(options.kubeconfig)
    if isinstance(access, str):
        sys.exit(access)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    transport = HTTPTransport(access)
    try:
        await QuotaManager(transport, options.limits).run()
    except asyncio.CancelledError:
        say("stopped")
    finally:
        await transport.close()


if __name__ == "__main__":
    asyncio.run(main())
