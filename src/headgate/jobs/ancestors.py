"""Who a job or a pod belongs to: the topmost of its controllers that waits in a queue of its own.

What has such an ancestor gets no Workload and no quota itself: it waits for the Workload of that ancestor. The search
goes up by controller references, through kinds that are known here, and stops at any other (a CronJob is no job: what
it creates stands alone). What becomes of a child is ``plan.py``'s to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.kind import JobKind, Object
from headgate.jobs.names import QUEUE_NAME
from headgate.kube.references import controller_of, group_kind_of
from headgate.kube.resource import DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS, Resource

Find = Callable[[Resource, str, str], Object | None]
"""An object by its resource, namespace and name; None if there is none, or none is known yet."""
Known = Mapping[tuple[str, str], Resource]
"""Kinds that may be ancestors, by group and kind, whatever the version."""

DEEPEST: Final = 10
TOO_DEEP: Final = "JobNestingTooDeep"
CYCLE: Final = "CyclicOwnership"
NOT_FOUND: Final = "OwnerNotFound"

_BUILTIN: Final[Known] = {
    ("batch", "Job"): JOBS,
    ("apps", "Deployment"): DEPLOYMENTS,
    ("apps", "ReplicaSet"): REPLICA_SETS,
    ("apps", "StatefulSet"): STATEFUL_SETS,
}


class Unsure(msgspec.Struct, frozen=True):
    """Nobody can say whose it is: nothing is started before somebody can. ``reason`` is one of the words above."""

    reason: str
    message: str


def known_ancestors(kinds: Iterable[JobKind] = ()) -> Known:
    return {**_BUILTIN, **{(each.kind.group, each.kind.kind): each.resource for each in kinds}}


def managed_ancestor(
    obj: Mapping[str, Any], find: Find, known: Known, *, manages_all: bool = False
) -> Object | Unsure | None:
    """The topmost ancestor that has a queue name (or any, where all jobs are managed); None: it stands alone.

    A reference to a namesake with another uid leads nowhere, as if the owner were gone for good."""
    namespace = str((obj.get("metadata") or {}).get("namespace", ""))
    found: Object | None = None
    seen = {(obj.get("metadata") or {}).get("uid")}
    current = obj
    while (owner := controller_of(current)) is not None and (resource := known.get(group_kind_of(owner))) is not None:
        name, uid = str(owner.get("name", "")), owner.get("uid")
        parent = find(resource, namespace, name)
        if parent is None:
            return Unsure(NOT_FOUND, f"{owner.get('kind')} {namespace}/{name}, which controls it, is not known")
        if parent["metadata"].get("uid") != uid:
            break
        if uid in seen:
            return Unsure(CYCLE, f"{owner.get('kind')} {namespace}/{name} is controlled by what it controls")
        has_queue = manages_all or (parent["metadata"].get("labels") or {}).get(QUEUE_NAME)
        if has_queue and not (resource == REPLICA_SETS and controller_of(parent) is not None):
            found = parent  # the labels of a ReplicaSet with an owner are those of its pods, not its own
        if len(seen) >= DEEPEST + 1:
            text = f"Terminated search for Kueue-managed Job because ancestor depth exceeded limit of {DEEPEST}"
            return Unsure(TOO_DEEP, text)
        seen.add(uid)
        current = parent
    return found
