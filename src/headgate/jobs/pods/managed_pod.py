"""One managed pod with the fields that the rules for pods use: its role, its phase, whether it counts for its pod set.

A pod is decoded once per version. ``pod_unit.py`` and the rules of ``pod_plan.py`` use the result.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.controllers.ownership.pods import is_ready, phase_of
from headgate.jobs.framework.release_mark import is_released
from headgate.jobs.framework.scheduling_gated_by import gated_by
from headgate.jobs.framework.workload import admission_gates_of, queue_of
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
    """``total``: the number of pods in its group, or an error text if its annotation is invalid. ``is_gated``: it has
    Kueue's scheduling gate. ``has_finalizer``: it has Headgate's finalizer. ``has_termination_target``: it has the
    condition TerminationTarget with the reason of its termination. ``is_force_deleted``: it was deleted without a grace
    period, so the API server does not wait for the kubelet, and only finalizers delay the removal of the pod.
    ``is_released``: an uninstallation has given it up. ``has_passed_admission``: Headgate's or Kueue's webhook handled
    its creation and gated it."""

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
    has_termination_target: bool
    is_force_deleted: bool
    is_released: bool
    has_passed_admission: bool

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
        """Whether the pod may run: its gate is removed, it has not ended, and it does not terminate."""
        return not (self.is_gated or self.is_terminating or self.has_ended)

    @property
    def may_run_unadmitted(self) -> bool:
        """Whether the pod runs and is not stopped if it has no admission: no webhook could gate it, or its gate was
        removed by an uninstallation, or after one."""
        return self.is_running and (self.is_released or not self.has_passed_admission)

    @property
    def has_finished_terminating(self) -> bool:
        """Whether the pod has a deletion timestamp and its containers have stopped. No kubelet confirms the stop of a
        pod that has no node or was deleted by force; such a pod counts as stopped."""
        return self.is_terminating and (self.has_ended or not self.is_bound or self.is_force_deleted)

    @property
    def is_waiting(self) -> bool:
        """Whether the pod waits for its gate to be removed."""
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
        is_force_deleted=bool(metadata.get("deletionTimestamp")) and metadata.get("deletionGracePeriodSeconds") == 0,
        has_termination_target=conditions.is_true((pod.get("status") or {}).get("conditions"), TERMINATION_TARGET),
        is_released=is_released(pod),
        has_passed_admission=_has_passed_admission(pod),
    )


def _has_passed_admission(pod: Object) -> bool:
    """The webhook records the role of each pod that it gates, and adds the finalizer to pods without an owner in a
    queue. The label alone proves nothing: templates of Deployments and StatefulSets have it."""
    metadata = pod["metadata"]
    is_marked = ROLE_HASH in (metadata.get("annotations") or {}) or MANAGED in (metadata.get("finalizers") or ())
    return is_marked or pod_metadata.is_gated(pod)


def _role_of(pod: Object) -> str:
    """The role of a pod in a group: a hash of its spec. Admission records the hash, because the start of a pod changes
    fields that are part of it. If it is not recorded, the label that was set at the start has precedence."""
    label = (pod["metadata"].get("labels") or {}).get(POD_SET_LABEL)
    is_hash_recorded = ROLE_HASH in (pod["metadata"].get("annotations") or {})
    return label if label and not is_hash_recorded and not pod_metadata.is_gated(pod) else pod_metadata.role_of(pod)


def relevant_fields(member: ManagedPod) -> tuple[Any, ...]:
    """The fields that the rules use. Changes of other fields do not enqueue the unit."""
    metadata = member.pod["metadata"]
    deletion_and_generation = metadata.get("deletionTimestamp"), metadata.get("generation")
    values = (getattr(member, name) for name in _COMPARED_FIELDS)
    return (
        *values,
        *deletion_and_generation,
        gated_by(member.pod),
        admission_gates_of(member.pod),
        gate_names(member.pod),
    )


_COMPARED_FIELDS: Final = tuple(name for name in ManagedPod.__struct_fields__ if name != "pod")
