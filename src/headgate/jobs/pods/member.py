"""One managed pod as its group sees it: its role, how far it is, and whether it still fills its place.

Read once when the pod is heard of. What follows for the group is ``unit.py``'s and ``plan.py``'s.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.jobs.gating import gate_of
from headgate.jobs.names import MANAGED, POD_SET_LABEL, ROLE_HASH, TERMINATION_TARGET
from headgate.jobs.pods import shape
from headgate.jobs.workload import gates_of, queue_of
from headgate.kube import conditions
from headgate.kube.gates import gate_names
from headgate.owners.families.pods import is_ready, phase_of

Object = dict[str, Any]

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
ALONE: Final = "main"
"""The pod set of a pod without a group."""


class Member(msgspec.Struct, frozen=True):
    """``is_kept``: our finalizer is on it. ``is_marked``: it was told why it has to end. ``is_forced``: it was deleted
    without grace, so no kubelet is waited for, and only finalizers keep it."""

    pod: Object
    name: str
    uid: str
    role: str
    queue: str
    total: int | str
    phase: str
    created: str
    is_gated: bool
    is_leaving: bool
    is_bound: bool
    is_ready: bool
    is_kept: bool
    is_marked: bool
    is_forced: bool

    @property
    def is_over(self) -> bool:
        return self.phase in (SUCCEEDED, FAILED)

    @property
    def fills_a_place(self) -> bool:
        """It succeeded, or may yet. Who is told to end may be replaced at once; who then succeeds all the same counts
        as long as our finalizer keeps it."""
        if self.is_leaving:
            return self.phase == SUCCEEDED and self.is_kept
        return self.phase != FAILED

    @property
    def has_succeeded(self) -> bool:
        return self.phase == SUCCEEDED and self.fills_a_place

    @property
    def runs(self) -> bool:
        """It was let go, and nobody has told it to end."""
        return not (self.is_gated or self.is_leaving or self.is_over)

    @property
    def is_history(self) -> bool:
        """It is told to end, and nothing of it runs any more, or no kubelet is waited for."""
        return self.is_leaving and (self.is_over or not self.is_bound or self.is_forced)

    @property
    def waits(self) -> bool:
        return self.is_gated and not self.is_leaving


def read_member(pod: Object) -> Member:
    metadata = pod["metadata"]
    in_group = bool(shape.group_of(pod))
    return Member(
        pod=pod,
        name=metadata["name"],
        uid=metadata["uid"],
        role=_role_of(pod) if in_group else ALONE,
        queue=queue_of(pod),
        total=shape.total_count(pod) if in_group else 1,
        phase=phase_of(pod),
        created=metadata.get("creationTimestamp", ""),
        is_gated=shape.is_gated(pod),
        is_leaving=bool(metadata.get("deletionTimestamp")),
        is_bound=bool((pod.get("spec") or {}).get("nodeName")),
        is_ready=is_ready(pod),
        is_kept=MANAGED in (metadata.get("finalizers") or ()),
        is_forced=bool(metadata.get("deletionTimestamp")) and metadata.get("deletionGracePeriodSeconds") == 0,
        is_marked=conditions.is_true((pod.get("status") or {}).get("conditions"), TERMINATION_TARGET),
    )


def _role_of(pod: Object) -> str:
    """A start adds to what the role is made of: where admission did not write it down, the start did."""
    at_start = (pod["metadata"].get("labels") or {}).get(POD_SET_LABEL)
    is_written = ROLE_HASH in (pod["metadata"].get("annotations") or {})
    return at_start if at_start and not is_written and not shape.is_gated(pod) else shape.role_of(pod)


def trace(member: Member) -> tuple[Any, ...]:
    """What of a pod anybody here looks at: news of anything else wake nobody."""
    metadata = member.pod["metadata"]
    stamps = metadata.get("deletionTimestamp"), metadata.get("generation")
    facts = (getattr(member, name) for name in _FACTS)
    return *facts, *stamps, gate_of(member.pod), gates_of(member.pod), gate_names(member.pod)


_FACTS: Final = tuple(name for name in Member.__struct_fields__ if name != "pod")
