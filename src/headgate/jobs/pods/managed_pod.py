"""One managed pod as its group uses it: its role, its phase, and whether it counts for its pod set.

It is decoded once per version of the pod. ``pod_unit.py`` and ``pod_plan.py`` use it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.controllers.ownership.pods import is_ready, phase_of
from headgate.jobs.framework.scheduling_gated_by import gate_of
from headgate.jobs.framework.workload import gates_of, queue_of
from headgate.jobs.names import MANAGED, POD_SET_LABEL, ROLE_HASH, TERMINATION_TARGET
from headgate.jobs.pods import pod_metadata
from headgate.kube import conditions
from headgate.kube.scheduling_gates import gate_names

Object = dict[str, Any]

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
SINGLE_POD_ROLE: Final = "main"
"""The pod set of a pod without a group."""


class ManagedPod(msgspec.Struct, frozen=True):
    """``has_finalizer``: Headgate's. ``is_marked``: it has the condition with the reason of its termination.
    ``is_forced``: it was deleted without a grace period, so no kubelet confirms, and only finalizers keep it."""

    pod: Object
    name: str
    uid: str
    role: str
    queue: str
    total: int | str
    phase: str
    created: str
    is_gated: bool
    is_terminating: bool
    is_bound: bool
    is_ready: bool
    has_finalizer: bool
    is_marked: bool
    is_forced: bool

    @property
    def has_ended(self) -> bool:
        return self.phase in (SUCCEEDED, FAILED)

    @property
    def counts_for_pod_set(self) -> bool:
        """Whether the pod has succeeded or may still succeed. A terminating pod does not count, so that it can be
        replaced at once; if it has succeeded, it counts while it has Headgate's finalizer."""
        if self.is_terminating:
            return self.phase == SUCCEEDED and self.has_finalizer
        return self.phase != FAILED

    @property
    def has_succeeded(self) -> bool:
        return self.phase == SUCCEEDED and self.counts_for_pod_set

    @property
    def is_running(self) -> bool:
        """Whether its gate is removed and it does not terminate."""
        return not (self.is_gated or self.is_terminating or self.has_ended)

    @property
    def is_terminated(self) -> bool:
        """Whether it is deleted and its containers have stopped, or no kubelet has to confirm that."""
        return self.is_terminating and (self.has_ended or not self.is_bound or self.is_forced)

    @property
    def is_waiting(self) -> bool:
        return self.is_gated and not self.is_terminating


def read_managed_pod(pod: Object) -> ManagedPod:
    metadata = pod["metadata"]
    in_group = bool(pod_metadata.group_of(pod))
    return ManagedPod(
        pod=pod,
        name=metadata["name"],
        uid=metadata["uid"],
        role=_role_of(pod) if in_group else SINGLE_POD_ROLE,
        queue=queue_of(pod),
        total=pod_metadata.total_count(pod) if in_group else 1,
        phase=phase_of(pod),
        created=metadata.get("creationTimestamp", ""),
        is_gated=pod_metadata.is_gated(pod),
        is_terminating=bool(metadata.get("deletionTimestamp")),
        is_bound=bool((pod.get("spec") or {}).get("nodeName")),
        is_ready=is_ready(pod),
        has_finalizer=MANAGED in (metadata.get("finalizers") or ()),
        is_forced=bool(metadata.get("deletionTimestamp")) and metadata.get("deletionGracePeriodSeconds") == 0,
        is_marked=conditions.is_true((pod.get("status") or {}).get("conditions"), TERMINATION_TARGET),
    )


def _role_of(pod: Object) -> str:
    """The role. The start changes the fields that the hash is computed from, so the label of the start has precedence
    if admission has not recorded the hash."""
    at_start = (pod["metadata"].get("labels") or {}).get(POD_SET_LABEL)
    is_written = ROLE_HASH in (pod["metadata"].get("annotations") or {})
    return at_start if at_start and not is_written and not pod_metadata.is_gated(pod) else pod_metadata.role_of(pod)


def relevant_fields(member: ManagedPod) -> tuple[Any, ...]:
    """The fields that the rules use. Changes of other fields do not enqueue the unit."""
    metadata = member.pod["metadata"]
    stamps = metadata.get("deletionTimestamp"), metadata.get("generation")
    facts = (getattr(member, name) for name in _FACTS)
    return *facts, *stamps, gate_of(member.pod), gates_of(member.pod), gate_names(member.pod)


_FACTS: Final = tuple(name for name in ManagedPod.__struct_fields__ if name != "pod")
