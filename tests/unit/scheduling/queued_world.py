"""A scheduler whose pods go by queues, and the steps that stories about gates are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clusters import a_node, a_pod
from headgate.capacity.conf import DEFAULTS as SETTINGS
from headgate.capacity.conf import SchedulerConf
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, POD_GROUPS, QUEUE_NAME, QUEUES, STAMP
from headgate.scheduling.framework.effects import Effect, RemoveSchedulingGate, WriteResult
from headgate.scheduling.gates.queue_admission import QueueAdmissionSettings
from unit.scheduling.world import World

Object = dict[str, Any]


def a_queue(name: str, cpu: str = "", parent: str = "root", **spec: Any) -> Object:
    limits = {"capability": {"cpu": cpu}} if cpu else {}
    meta = {"name": name, "uid": f"uid-queue-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": meta, "spec": {"parent": parent, **limits, **spec}, "status": {"state": "Open"}}


def a_group(name: str, members: int, queue: str = "q", **spec: Any) -> Object:
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-group-{name}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"metadata": meta, "spec": {"minMember": members, "queue": queue, **spec}, "status": {"phase": "Inqueue"}}


def a_gated_pod(
    name: str,
    cpu: str = "1",
    queue: str = "q",
    group: str = "",
    gates: Iterable[str] = (GATE,),
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Opted in, and with the gate that the webhook put on it."""
    pod = a_pod(name, {"cpu": cpu} if cpu else {}, schedulingGates=[{"name": each} for each in gates], **spec)
    said = {OPT_IN: "true", QUEUE_NAME: queue, **({GROUP_NAMES[0]: group} if group else {})}
    pod["metadata"]["annotations"] = said if annotations is None else dict(annotations)
    pod["status"] = {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gated"}]
    }
    return pod


def ungated(pod: Object, stamp: str = "") -> Object:
    annotations = {**pod["metadata"]["annotations"], **({STAMP: stamp} if stamp else {})}
    metadata = {**pod["metadata"], "annotations": annotations, "generation": 2}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "schedulingGates": []}}


class QueuedWorld(World):
    def __init__(
        self,
        *queues: Object,
        nodes: Iterable[Object] = (),
        enabled: bool = True,
        settings: SchedulerConf = SETTINGS,
        **more: Any,
    ) -> None:
        queueing = QueueAdmissionSettings(enabled, lambda: self.now_s)
        super().__init__(nodes=nodes or (a_node("a", cpu="8"),), queues=settings, queueing=queueing, **more)
        self.show_queues(*queues)

    def show_queues(self, *queues: Object) -> None:
        for each in queues:
            self.scheduler.object_applied(QUEUES, each, self.now_s)

    def show_groups(self, *groups: Object) -> None:
        for each in groups:
            self.scheduler.object_applied(POD_GROUPS, each, self.now_s)

    @property
    def lifts(self) -> dict[str, str]:
        """The removals that the last effects ask for: stamps by pod."""
        return {each.pod.name: each.stamp for each in self.effects if isinstance(each, RemoveSchedulingGate)}

    def lifted(self, name: str, result: WriteResult = WriteResult.DONE, message: str = "") -> list[Effect]:
        self.effects = self.scheduler.gate_removed(f"uid-{name}", result, message, self.now_s)
        return self.effects
