"""A dependency controller in one file: pods and Jobs wait until other Jobs of their namespace have completed.

The annotation ``example.com/after: job-a,job-b`` names the Jobs to wait for. What holds the object back is a gate:

- A pod has the scheduling gate ``example.com/dependencies``, usually from the pod template of its owner.
- A Job in one of Kueue's queues has the annotation ``kueue.x-k8s.io/scheduling-gated-by: example.com/dependencies``
  (KEP-6915). It has no Workload, so it asks for no quota, until the annotation is removed.

When all named Jobs have completed, the controller removes this gate and no other. Meanwhile Events on the object say
what it waits for. A Job that does not exist, that failed, or that waits for the object itself (a cycle) is reported as
a Warning; the object keeps waiting, because a Job may be created again, and the annotation may be changed.

A Job may be deleted after it has completed, for example by ``ttlSecondsAfterFinished``. So the controller writes the
completed ones to the annotation ``example.com/after-completed`` of an object that waits for others, and does not ask
for them again. A Job that completed and was deleted while the controller was not running is reported as missing.

Start it, with the rights of ``job-dependencies-rights.yaml``; ``job-dependencies-sample.yaml`` has Jobs and a pod:

    kubectl apply -f job-dependencies-rights.yaml -f job-dependencies-sample.yaml
    python job_dependencies.py --kubeconfig .headgate/kubeconfig

All state is in the API, so the process may be killed at any time: at its start it lists Jobs and pods and continues.
A second copy is harmless: a gate is removed only from the object with this uid, and only if it is still there.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from headgate.client.io.credentials import find_rest_config
from headgate.client.io.event_recorder import EventRecorder, EventToEmit
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied, ObjectDeleted
from headgate.client.io.writer import Writer
from headgate.client.write_status import WriteOutcome, WriteStatus
from headgate.http.transport import Transport
from headgate.kube import conditions
from headgate.kube.api_resources import JOBS, PODS
from headgate.kube.scheduling_gates import gate_names
from headgate.runtime.work_queue import WorkQueue

GATE = "example.com/dependencies"
AFTER = "example.com/after"
COMPLETED = "example.com/after-completed"
JOB_GATE = "kueue.x-k8s.io/scheduling-gated-by"
RESOURCES = {"Pod": PODS, "Job": JOBS}
FIELDS = {
    "Pod": ("metadata.annotations", "metadata.deletionTimestamp", "metadata.ownerReferences", "spec.schedulingGates"),
    "Job": ("metadata.annotations", "metadata.deletionTimestamp", "status.conditions"),
}
MISSING_S = 2.0
"""A Job is reported as missing after this time: it may be created a moment after the object that waits for it."""
RETRY_REFUSED_S = 60.0
MAX_MESSAGE = 1024
Object = dict[str, Any]
JobKey = tuple[str, str]
"""Namespace and name."""
Key = tuple[str, str, str]
"""Kind, namespace and name."""


# -- decisions: no I/O -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Waiter:
    """A pod or a Job that has the gate. ``job``: the Job that cannot complete before the gate is removed: the Job
    itself, or the owner of the pod; empty for other pods."""

    key: Key
    uid: str
    after: tuple[str, ...]
    completed: frozenset[str]
    job: str
    gates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """``rest``: the Jobs that have not completed. ``record``: those that completed and are to be written down."""

    waiter: Waiter
    rest: tuple[str, ...] = ()
    record: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    cycle: tuple[str, ...] = ()


class Dependencies:
    """Which objects wait for which Job. Watch events go in and name the objects to look at; decisions come out."""

    def __init__(self) -> None:
        self._jobs: dict[JobKey, str] = {}  # "complete", "failed" or empty
        self._waiters: dict[Key, Waiter] = {}
        self._dependents: dict[JobKey, set[Key]] = {}  # the objects that name a Job
        self._holding: dict[JobKey, set[Key]] = {}  # a Job that waits, and pods of a Job that wait

    def on_job(self, event: InformerEvent) -> set[Key]:
        if isinstance(event, ObjectDeleted):
            job = (event.namespace, event.name)
            self._jobs.pop(job, None)
            return self._set_waiter(("Job", *job), None) | self._dependents.get(job, set())
        if not isinstance(event, ObjectApplied):
            return set()
        metadata = event.object["metadata"]
        job = (metadata["namespace"], metadata["name"])
        self._jobs[job] = state_of(event.object)
        is_held = (metadata.get("annotations") or {}).get(JOB_GATE) == GATE and "deletionTimestamp" not in metadata
        waiter = read_waiter("Job", event.object, job[1]) if is_held else None
        return self._set_waiter(("Job", *job), waiter) | self._dependents.get(job, set())

    def on_pod(self, event: InformerEvent) -> set[Key]:
        if isinstance(event, ObjectDeleted):
            return self._set_waiter(("Pod", event.namespace, event.name), None)
        if not isinstance(event, ObjectApplied):
            return set()
        metadata = event.object["metadata"]
        owners = [each["name"] for each in metadata.get("ownerReferences") or () if each["kind"] == "Job"]
        waiter = read_waiter("Pod", event.object, owners[0] if owners else "")
        is_held = GATE in waiter.gates and "deletionTimestamp" not in metadata
        return self._set_waiter(("Pod", metadata["namespace"], metadata["name"]), waiter if is_held else None)

    def written(self, waiter: Waiter, after: Waiter | None) -> None:
        """The controller has changed the object, or has removed its gate. The watch shows it later."""
        if self._waiters.get(waiter.key) == waiter:
            self._set_waiter(waiter.key, after)

    def decide(self, key: Key) -> Decision | None:
        """None if the object does not wait for this controller. Without ``rest``, the gate is to be removed."""
        waiter = self._waiters.get(key)
        if waiter is None:
            return None
        namespace = key[1]
        rest = self._rest_of(waiter)
        left = set(rest)
        done = tuple(name for name in waiter.after if name not in left)
        return Decision(
            waiter,
            rest,
            done if rest and not waiter.completed.issuperset(done) else (),
            tuple(name for name in rest if (namespace, name) not in self._jobs),
            tuple(name for name in rest if self._jobs.get((namespace, name)) == "failed"),
            self._cycle_of(waiter),
        )

    def _rest_of(self, waiter: Waiter) -> tuple[str, ...]:
        is_complete = {name for name in waiter.after if self._jobs.get((waiter.key[1], name)) == "complete"}
        return tuple(name for name in waiter.after if name not in waiter.completed and name not in is_complete)

    def _cycle_of(self, waiter: Waiter) -> tuple[str, ...]:
        """The Jobs from the waiter's own Job back to it; empty if its Job does not wait for itself."""
        namespace = waiter.key[1]
        came_from: dict[str, str] = {}
        stack = [(name, waiter.job) for name in self._rest_of(waiter)] if waiter.job else []
        while stack:
            name, before = stack.pop()
            if name in came_from:
                continue
            came_from[name] = before
            if name == waiter.job:
                path = [name]
                while len(path) == 1 or path[-1] != waiter.job:
                    path.append(came_from[path[-1]])
                return tuple(reversed(path))
            for held in self._holding.get((namespace, name), ()):
                stack += [(further, name) for further in self._rest_of(self._waiters[held])]
        return ()

    def _set_waiter(self, key: Key, waiter: Waiter | None) -> set[Key]:
        """Returns the objects whose decision may change: this one, and all that wait for its Job, at any distance."""
        before = self._waiters.pop(key, None)
        if before is not None:
            for index, name in self._index_entries(before):
                index[key[1], name].discard(key)
                if not index[key[1], name]:
                    del index[key[1], name]
        if waiter is not None:
            self._waiters[key] = waiter
            for index, name in self._index_entries(waiter):
                index.setdefault((key[1], name), set()).add(key)
        if before == waiter:
            return set()
        affected = {key}
        stack = [each.job for each in (before, waiter) if each is not None and each.job]
        seen = set(stack)
        while stack:
            for dependent in self._dependents.get((key[1], stack.pop()), ()):
                affected.add(dependent)
                job = self._waiters[dependent].job
                if job and job not in seen:
                    seen.add(job)
                    stack.append(job)
        return affected

    def _index_entries(self, waiter: Waiter) -> Iterable[tuple[dict[JobKey, set[Key]], str]]:
        yield from ((self._dependents, name) for name in waiter.after)
        if waiter.job:
            yield self._holding, waiter.job


def read_waiter(kind: str, obj: Object, job: str) -> Waiter:
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    return Waiter(
        (kind, metadata["namespace"], metadata["name"]),
        metadata["uid"],
        names_in(annotations.get(AFTER) or ""),
        frozenset(names_in(annotations.get(COMPLETED) or "")),
        job,
        gate_names(obj),
    )


def names_in(text: str) -> tuple[str, ...]:
    """The names of a comma-separated list, each once."""
    return tuple(dict.fromkeys(filter(None, (each.strip() for each in text.split(",")))))


def state_of(job: Object) -> str:
    listed = (job.get("status") or {}).get("conditions")
    for kind, state in (("Complete", "complete"), ("Failed", "failed")):
        found = conditions.find(listed, kind)
        if found is not None and found["status"] == "True":
            return state
    return ""


def report(decision: Decision) -> tuple[str, str, str]:
    """The type, reason and message of the Event that says why the object waits."""
    after = f"change the annotation {AFTER}"
    if not decision.waiter.after:
        return "Warning", "NoDependencies", f"it has the gate {GATE}, but names no Job: {after}, or remove the gate"
    if decision.cycle:
        path = " -> ".join(decision.cycle)
        return "Warning", "DependencyCycle", f"it waits for itself: {path}; {after}, or delete one of them"
    if decision.missing:
        names = ", ".join(decision.missing)
        text = f"there is no Job {names}: create it; if it has completed and was deleted, {after}"
        return "Warning", "DependencyMissing", text
    if decision.failed:
        return "Warning", "DependencyFailed", f"failed: Job {', '.join(decision.failed)}; create it again, or {after}"
    return "Normal", "WaitingForDependencies", f"it waits until these Jobs have completed: {', '.join(decision.rest)}"


def removal(waiter: Waiter) -> list[Object]:
    """The steps of a JSON patch that removes the gate, if it is still there."""
    if waiter.key[0] == "Job":
        path = f"/metadata/annotations/{JOB_GATE.replace('/', '~1')}"
        return [{"op": "test", "path": path, "value": GATE}, {"op": "remove", "path": path}]
    path = f"/spec/schedulingGates/{waiter.gates.index(GATE)}"
    return [{"op": "test", "path": path, "value": {"name": GATE}}, {"op": "remove", "path": path}]


# -- performing them ---------------------------------------------------------------------------------------------------


class DependencyController:
    """Watches Jobs and pods, records completed Jobs, and removes gates."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._dependencies = Dependencies()
        self._queue: WorkQueue[Key] = WorkQueue()
        self._unsynced = set(RESOURCES)
        self._synced = asyncio.Event()
        self._emitted: dict[Key, tuple[str, str, str]] = {}  # the last Event about each object that waits
        self._missing_since_s: dict[Key, float] = {}
        self._writer = Writer(transport, jitter=random.random, sleep=asyncio.sleep)
        self._events = EventRecorder(Writer(transport, jitter=random.random, sleep=asyncio.sleep, attempts=2))

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer("Job", self._dependencies.on_job).run())
            tasks.create_task(self._informer("Pod", self._dependencies.on_pod).run())
            tasks.create_task(self._events.run())
            await self._synced.wait()  # before, a Job that is not listed yet would look like a missing one
            say("ready")
            for _ in range(4):
                tasks.create_task(self._work())

    def _informer(self, kind: str, handle: Callable[[InformerEvent], set[Key]]) -> Informer:
        def deliver(event: InformerEvent) -> None:
            for key in handle(event):
                self._queue.add(key)
            if isinstance(event, ListSynced):
                self._unsynced.discard(kind)
                if not self._unsynced:
                    self._synced.set()

        return Informer(
            self._transport,
            RESOURCES[kind].collection_path(),
            deliver,
            jitter=random.random,
            sleep=asyncio.sleep,
            fields=FIELDS[kind],
            report=say,
        )

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            if await self._reconcile(key):
                self._queue.forget(key)
            else:
                self._queue.add_rate_limited(key, random.random())
            self._queue.done(key)

    async def _reconcile(self, key: Key) -> bool:
        """Returns False if it must be tried again soon."""
        decision = self._dependencies.decide(key)
        if decision is None:
            self._emitted.pop(key, None)
            self._missing_since_s.pop(key, None)
            return True
        if decision.rest or not decision.waiter.after:
            self._explain(key, decision)
            return not decision.record or await self._record(decision)
        return await self._release(decision.waiter)

    def _explain(self, key: Key, decision: Decision) -> None:
        if decision.missing and not decision.cycle:
            now_s = asyncio.get_running_loop().time()
            wait_s = self._missing_since_s.setdefault(key, now_s) + MISSING_S - now_s
            if wait_s > 0:
                self._queue.add(key, wait_s)
                return
        else:
            self._missing_since_s.pop(key, None)
        self._emit(decision.waiter, *report(decision))

    async def _record(self, decision: Decision) -> bool:
        kind, namespace, name = decision.waiter.key
        body = {"metadata": {"annotations": {COMPLETED: ",".join(decision.record)}}}
        status = await self._writer.patch(RESOURCES[kind], namespace, name, decision.waiter.uid, body)
        if status.done:
            self._dependencies.written(decision.waiter, replace(decision.waiter, completed=frozenset(decision.record)))
        return self._is_settled(decision.waiter, f"completed: {', '.join(decision.record)}", status)

    async def _release(self, waiter: Waiter) -> bool:
        kind, namespace, name = waiter.key
        status = await self._writer.json_patch(RESOURCES[kind], namespace, name, waiter.uid, removal(waiter))
        if status.done:
            self._dependencies.written(waiter, None)
        return self._is_settled(waiter, "gate removed", status)

    def _is_settled(self, waiter: Waiter, what: str, status: WriteStatus) -> bool:
        """Returns False if the write must be decided again soon: the object changed, or the outcome is unknown."""
        name = "/".join(waiter.key)
        if status.done:
            say(f"{name}: {what}")
            return True
        if status.outcome in (WriteOutcome.GONE, WriteOutcome.REPLACED):
            return True  # the watch shows it, and a new object of this name is looked at by itself
        say(f"{name}: not written ({what}): {status.outcome.value}: {status.message}")
        if status.outcome is WriteOutcome.REFUSED:
            self._emit(waiter, "Warning", "ReleaseRefused", f"the API server refused the write: {status.message}")
            self._queue.add(waiter.key, RETRY_REFUSED_S)
            return True
        return False

    def _emit(self, waiter: Waiter, kind: str, reason: str, message: str) -> None:
        """Emits an Event about the object, unless it was the last one."""
        if self._emitted.get(waiter.key) == (waiter.uid, reason, message):
            return
        self._emitted[waiter.key] = (waiter.uid, reason, message)
        of_kind, namespace, name = waiter.key
        version = "batch/v1" if of_kind == "Job" else "v1"
        about = {"apiVersion": version, "kind": of_kind, "namespace": namespace, "name": name, "uid": waiter.uid}
        self._events.emit(EventToEmit(about, reason, message[:MAX_MESSAGE], kind, "job-dependencies"))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", default="", help="the cluster [default: as kubectl finds it]")
    options = parser.parse_args()
    access = find_rest_config(options.kubeconfig)
    if isinstance(access, str):
        sys.exit(access)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    transport = HTTPTransport(access)
    try:
        await DependencyController(transport).run()
    except asyncio.CancelledError:
        say("stopped")
    finally:
        await transport.close()


if __name__ == "__main__":
    asyncio.run(main())
