"""The life of each Workload of a recording: when it was created, admitted and finished, and for which pods.

A Workload says what its job needs, whatever the kind of the job is: the queue, the priority, the pods and their
requests. Its run time is the time from its last admission, or from the binding of the last of its pods, to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headgate.audit.pod_facts import seconds
from headgate.kube import conditions
from headgate.quota.names import ADMITTED, FINISHED
from headgate.recording.changes import Object, RecordedChange


class WorkloadHistory:
    """``admitted_s``: of the last admission; ``None`` while it is not admitted. ``owners``: the uids of its owners, and
    its own."""

    __slots__ = ("admitted_s", "arrived_s", "ended_s", "finished", "kind", "obj", "owner", "owners", "was_admitted")

    def __init__(self, obj: Object, arrived_s: float) -> None:
        metadata = obj["metadata"]
        listed = [each for each in metadata.get("ownerReferences") or () if isinstance(each, dict)]
        self.obj = obj
        self.arrived_s = arrived_s
        self.owner = str(listed[0].get("name") or "") if listed else str(metadata["name"])
        self.kind = str(listed[0].get("kind") or "") if listed else "Workload"
        self.owners = frozenset({str(metadata.get("uid") or ""), *(str(each.get("uid") or "") for each in listed)})
        self.admitted_s: float | None = None
        self.ended_s: float | None = None
        self.finished = False
        self.was_admitted = False

    @property
    def pod_sets(self) -> list[Mapping[str, Any]]:
        return [each for each in (self.obj.get("spec") or {}).get("podSets") or () if isinstance(each, dict)]


class WorkloadHistories:
    """Takes the changes of Workloads in the order of revisions."""

    def __init__(self) -> None:
        self._workloads: dict[str, WorkloadHistory] = {}  # by uid

    def __iter__(self) -> Iterator[WorkloadHistory]:
        return iter(self._workloads.values())

    def take(self, change: RecordedChange) -> None:
        found = self._workloads.get(change.uid)
        if change.deleted:
            if found is not None and found.ended_s is None:
                found.ended_s = change.at_s
            return
        if found is None:
            created_s = seconds(change.object["metadata"].get("creationTimestamp"))
            arrived_s = change.at_s if change.observed or not created_s else created_s
            found = self._workloads[change.uid] = WorkloadHistory(change.object, arrived_s)
        if found.ended_s is not None:
            return
        found.obj = change.object
        listed = (change.object.get("status") or {}).get("conditions")
        admitted = conditions.find(listed, ADMITTED) or {}
        if admitted.get("status") != "True":
            found.admitted_s = None
        elif found.admitted_s is None:
            since_s = seconds(admitted.get("lastTransitionTime"))
            found.admitted_s = change.at_s if change.observed or not since_s else since_s
            found.was_admitted = True
        if conditions.is_true(listed, FINISHED):
            found.finished = True
            found.ended_s = change.at_s
