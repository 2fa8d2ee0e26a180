"""Builders of Queues, PodGroups and pods for tests of ``capacity/``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headgate.capacity.api.stamp import Stamp
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.conf import DEFAULTS, SchedulerConf
from headgate.capacity.engine import Grant, QueueEngine, QueuePlugins, WaitReason
from headgate.capacity.names import GATE
from headgate.kube import quantity
from headgate.kube.resource_amounts import units
from headgate.kube.timestamps import format_time

Wire = dict[str, Any]


def amounts(**listed: str | int) -> dict[str, str | int]:
    """``gpu`` is ``nvidia.com/gpu``."""
    return {"nvidia.com/gpu" if name == "gpu" else name: value for name, value in listed.items()}


def in_units(listed: Mapping[str, str | int]) -> dict[str, int]:
    return {name: units(name, quantity.amount(value)) for name, value in listed.items()}


def a_queue(
    name: str,
    cpu: str | int | None = None,
    parent: str = "",
    deserved: Mapping[str, Any] | None = None,
    guarantee: Mapping[str, Any] | None = None,
    capability: Mapping[str, Any] | None = None,
    state: str = "Open",
    created_s: float = 0,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Wire:
    limits = dict(capability or {}) | ({} if cpu is None else {"cpu": cpu})
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": format_time(created_s),
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "spec": {
            **({"parent": parent} if parent else {}),
            **({"capability": limits} if limits else {}),
            **({"deserved": dict(deserved)} if deserved is not None else {}),
            **({"guarantee": {"resource": dict(guarantee)}} if guarantee is not None else {}),
            **spec,
        },
        "status": {"state": state},
    }


def a_group(name: str, queue: str = "", minimum: int = 1, phase: str = "Pending", **spec: Any) -> Wire:
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minMember": minimum, **({"queue": queue} if queue else {}), **spec},
        "status": {"phase": phase},
    }


def a_task(name: str, cpu: str | int | None = "1", opted_in: bool = True, **fields: Any) -> TaskInfo:
    """With the queue gate if it opted in. ``requests`` adds other resources; the uid is ``u-NAME``."""
    requests = in_units(fields.pop("requests", {}) | ({} if cpu is None else {"cpu": cpu}))
    given: dict[str, Any] = {
        "uid": f"u-{name}",
        "namespace": "ns",
        "requests": requests,
        "opted_in": opted_in,
        "gates": (GATE,) if opted_in else (),
    }
    return TaskInfo(name=name, **(given | fields))


def a_stamp(task: TaskInfo, queue: str, at: str = "2026-01-01T00:00:00.000000Z") -> Stamp:
    return Stamp(task.uid, queue, task.requests, at)


def stamped(task: TaskInfo, queue: str, at: str = "2026-01-01T00:00:00.000000Z") -> TaskInfo:
    """As the API shows the pod after the removal of its gate."""
    return msgspec.structs.replace(task, gates=(), stamp=a_stamp(task, queue, at))


class Queues:
    """A QueueEngine with objects; its methods take names of pods instead of uids."""

    def __init__(
        self, *objects: Wire | TaskInfo, conf: SchedulerConf = DEFAULTS, plugins: QueuePlugins | None = None
    ) -> None:
        self.engine = QueueEngine(conf, plugins)
        self.now_s = 1_000_000.0
        self.engine.namespace_applied({"metadata": {"name": "ns"}})
        self.apply(*objects)

    def apply(self, *objects: Wire | TaskInfo) -> None:
        for each in objects:
            if isinstance(each, TaskInfo):
                self.engine.task_applied(each)
            elif "minMember" in each["spec"]:
                self.engine.group_applied(each)
            else:
                self.engine.queue_applied(each)

    def admit(self, max_pods: int = 1_000) -> list[str]:
        """The names of the granted pods, in order. The stamps of promises that end are removed at once."""
        self.now_s += 1
        granted = names(self.engine.admit(self.now_s, max_pods))
        while ending := self.engine.promises_to_end():
            for uid in ending:
                self.engine.revocation_confirmed(uid)
            granted += names(self.engine.admit(self.now_s, max_pods - len(granted)))
        return granted

    def wait_reason(self, name: str) -> WaitReason | None:
        wait = self.engine.peek_wait_reason(f"u-{name}")
        return None if wait is None else wait.why

    def wait_message(self, name: str) -> str:
        wait = self.engine.peek_wait_reason(f"u-{name}")
        return "" if wait is None else wait.message

    def placed(self, *pods: str) -> None:
        for name in pods:
            self.engine.placed(f"u-{name}")

    def usage(self, queue: str, resource: str = "cpu") -> tuple[int, int]:
        """Allocated and reserved."""
        found = self.engine.usage(queue)
        return found.allocated.get(resource, 0), found.reserved.get(resource, 0)


def names(grants: Iterable[Grant]) -> list[str]:
    return [uid.removeprefix("u-") for grant in grants for uid in grant.uids]
