"""Explains why a pod waits: the holds on it, the outermost first, and what has to happen next.

The functions call the same engine as the scheduler (``engine.py``), rebuilt from lists, and interpret its answers. A
pod that has a node, has ended, or belongs to another scheduler gets a plain statement. ``runtime/inspection/queues.py``
reads the lists; ``cli/commands/explain.py`` prints the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.capacity.engine import CapabilityGrowth, MissingCapacity, QueueEngine, QueueRemedy, QueueWait, WaitReason
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, QUEUE_NAME
from headgate.kube import conditions
from headgate.kube.resource_amounts import amount_text
from headgate.kube.scheduling_gates import gate_names

Wire = Mapping[str, Any]

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_GROUP_WHYS: Final = frozenset({WaitReason.NO_GROUP, WaitReason.GANG_SHORT, WaitReason.NOT_INQUEUE})
_IN_LINE: Final = frozenset({WaitReason.FULL, WaitReason.WAITING_TURN})
_WITHOUT_A_NODE: Final = (conditions.UNSCHEDULABLE, conditions.WAITING_FOR_TERMINATING_PODS)
"""Reasons of pods that were tried: one that did not opt in gives its share back meanwhile."""
_OF_PLUGINS: Final = (
    conditions.UNSCHEDULABLE,
    conditions.SCHEDULER_ERROR,
    conditions.WAITING_ON_PERMIT,
    conditions.WAITING_ON_PRE_BIND,
)
"""Reasons of pods that a plugin may hold after PreEnqueue; the message says whether one does."""
WAITS_FOR: Final = {
    "gate": "somebody else's gate",
    "queue": "its queue",
    "group": "its group",
    "node": "a node",
    "plugin": "a plugin of its scheduler",
    "scheduler": "its scheduler",
}
_NEXT: Final[Mapping[WaitReason, str]] = {
    WaitReason.FULL: "queue {blocker} has to have room for it",
    WaitReason.NOT_INQUEUE: "queue {blocker} has to have room for its group",
    WaitReason.NO_QUEUE: "queue {queue} has to be created; or the pod made anew for another one",
    WaitReason.CLOSED: "queue {queue} has to be opened",
    WaitReason.NOT_LEAF: "the pod has to be made anew for a queue below {queue}, or those have to go",
    WaitReason.INVALID: "that has to be put right; everything else about the pod is fine as far as is known",
    WaitReason.NO_GROUP: "its PodGroup has to be created",
    WaitReason.GANG_SHORT: (
        "more pods of its group have to be created, or be able to go on: a gang starts whole or not at all"
    ),
    WaitReason.NOT_ASKED: (
        'the gate has to be lifted by hand (headgate gates lift) or the pod made anew with {opt_in}: "true"'
    ),
    WaitReason.PUT_OFF: "whoever refuses to let the gate go has to allow it; it is tried again from time to time",
    WaitReason.LOST_TURN: (
        "pods in queue {blocker} have to end, or its capability has to grow, until the older promises fit"
    ),
    WaitReason.TAKEN_BACK: (
        "pods in queue {queue} have to end, its capability has to grow, or a node has to come that fits"
    ),
    WaitReason.WAITING_TURN: "the scheduler's next pass; is one at work for {scheduler}?",
}


class PodGate(msgspec.Struct, frozen=True):
    """``by`` and ``since`` (a wire timestamp): as far as managed fields show."""

    name: str
    by: str = ""
    since: str = ""


class PodHold(msgspec.Struct, frozen=True, omit_defaults=True):
    """One hold on the pod. ``kind``: gate, plugin, queue, group, node or scheduler. ``why``: the reason of the queue or
    of the condition. ``since``: of a gate, which is as old as its pod; unknown for a condition, because its transition
    time is that of its status. ``blocker``: the queue, maybe an ancestor, without capacity; amounts are formatted for
    people."""

    kind: str
    name: str
    text: str
    why: str = ""
    by: str = ""
    since: str = ""
    blocker: str = ""
    resource: str = ""
    asked: str = ""
    used: str = ""
    limit: str = ""
    together: int = 1
    """How many pods of its group go on at once, itself among them: they ask for that much together."""
    position: int | None = None
    """How many units stand before it in its queue; pods that go on together are one."""


class PodExplanation(msgspec.Struct, frozen=True):
    """``state``: waiting, placed, leaving, ended, or foreign (another scheduler's). ``next``: what has to happen, for
    each hold that is not over."""

    namespace: str
    name: str
    uid: str
    state: str
    summary: str
    scheduler: str
    queue: str = ""
    group: str = ""
    created: str = ""
    opted_in: bool = False
    requests: Mapping[str, str] = {}
    holds: tuple[PodHold, ...] = ()
    next: tuple[str, ...] = ()


def explain(
    pod: Wire,
    queues: QueueEngine | None,
    requests: Mapping[str, int],
    gates: Sequence[PodGate],
    served: Collection[str],
) -> PodExplanation:
    """``queues``: ``None`` if they cannot be known. ``gates``: those of the pod, with who set them. ``served``: the
    schedulers whose pods go by queues."""
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    scheduler = spec.get("schedulerName") or "default-scheduler"
    state, summary = _state(metadata, spec, status, scheduler, served)
    uid, annotations = str(metadata.get("uid")), metadata.get("annotations") or {}
    about = PodExplanation(
        namespace=metadata.get("namespace") or "",
        name=metadata.get("name") or "",
        uid=uid,
        state=state,
        summary=summary,
        scheduler=scheduler,
        queue=queues.queue_of(uid) if queues is not None else str(annotations.get(QUEUE_NAME) or ""),
        group=next((annotations[each] for each in GROUP_NAMES if annotations.get(each)), ""),
        created=metadata.get("creationTimestamp") or "",
        opted_in=annotations.get(OPT_IN) == "true",
        requests={name: amount_text(name, amount) for name, amount in sorted(requests.items())},
    )
    if state not in ("waiting", "foreign"):
        return about
    found = list(_holds(pod, about, queues, gates))
    holds = tuple(hold for hold, _ in found)
    if state == "foreign" and any(hold.kind == "plugin" for hold in holds):
        summary = f"it waits for a plugin of its scheduler {scheduler}; it does not go by queues"
    following = tuple(step for _, step in found if step)
    return msgspec.structs.replace(about, holds=holds, next=following, summary=summary or _headline(holds))


def _state(metadata: Wire, spec: Wire, status: Wire, scheduler: str, served: Collection[str]) -> tuple[str, str]:
    phase, node = status.get("phase") or "Pending", spec.get("nodeName")
    if phase in _ENDED:
        return "ended", f"it has ended ({phase}): nothing holds it, and it holds nothing"
    if metadata.get("deletionTimestamp"):
        return "leaving", "it is being deleted" + (f", and still on node {node}" if node else "")
    if node:
        return "placed", f"it is on node {node} ({phase}): nothing holds it"
    if scheduler not in served:
        return (
            "foreign",
            f"its scheduler is {scheduler}, which does not go by queues; queues are for {', '.join(served)}",
        )
    return "waiting", ""


def _headline(holds: Sequence[PodHold]) -> str:
    kinds = list(dict.fromkeys(hold.kind for hold in holds))
    return "it waits for " + ", then for ".join(WAITS_FOR[kind] for kind in kinds)


def _holds(
    pod: Wire, about: PodExplanation, queues: QueueEngine | None, gates: Sequence[PodGate]
) -> Iterator[tuple[PodHold, str]]:
    """What holds the pod, each with what would have to happen; the outermost first."""
    strange = [each for each in gates if each.name != GATE or about.state == "foreign"]
    for each in strange:
        text = "a gate that is not ours: who set it lifts it, and the queue promises nothing before"
        yield (
            PodHold("gate", each.name, text, by=each.by, since=each.since),
            f"{each.by or 'its owner'} has to lift {each.name}",
        )
    held = queues.peek_wait_reason(about.uid) if queues is not None and about.state == "waiting" else None
    scheduled = _scheduled(pod)
    plugin = _plugin_hold(scheduled)
    if plugin is not None and not strange:
        yield plugin
        if held is not None and held.why is WaitReason.WAITING_TURN:
            return  # its turn is the queue's answer; the plugin keeps it from being tried
    if held is not None and held.why is WaitReason.FOREIGN_GATE and queues is not None:
        yield _behind(about, queues)
    elif held is not None and not (held.why is WaitReason.WAITING_TURN and scheduled.get("reason") in _WITHOUT_A_NODE):
        position = queues.position(about.uid) if queues is not None and held.why in _IN_LINE else None
        remedy = queues.remedy(about.uid) if queues is not None and held.resource else None
        yield _queue_hold(held, about.group, position, remedy), _next_of(held, about, position, remedy)
    elif not strange and plugin is None:
        yield _said(pod, about, scheduled)


def _scheduled(pod: Wire) -> Wire:
    return conditions.find((pod.get("status") or {}).get("conditions"), conditions.POD_SCHEDULED) or {}


def _plugin_hold(scheduled: Wire) -> tuple[PodHold, str] | None:
    """A PreEnqueue plugin that does not let the pod be tried, or that fails on it, as the scheduler said."""
    reason = scheduled.get("reason") or ""
    message = scheduled.get("message") or ""
    found = conditions.held_by(reason, message)
    if found is None:
        return _refusal(reason, message)
    plugin, words = found
    step = f"what plugin {plugin} waits for has to happen"
    if reason == conditions.SCHEDULER_ERROR:
        step = f"plugin {plugin} fails on the pod: the plugin has to be mended, or the pod changed"
    return PodHold("plugin", plugin, words, why=reason), step


def _refusal(reason: str, message: str) -> tuple[PodHold, str] | None:
    """A plugin of another point that rejects the pod, has it wait, or fails on it: no node is at fault."""
    found = conditions.refused_by(message) if reason in _OF_PLUGINS else None
    if found is None:
        return None
    plugin, words = found
    step = f"what plugin {plugin} waits for has to happen"
    if reason == conditions.SCHEDULER_ERROR:
        step = (
            f"it is tried again by itself; if plugin {plugin} goes on failing, it has to be mended or the pod changed"
        )
        words = message  # with the extension point
    return PodHold("plugin", plugin, words, why=reason), step


def _queue_hold(held: QueueWait, group: str, position: int | None, remedy: QueueRemedy | None) -> PodHold:
    kind = "group" if held.why in _GROUP_WHYS else "queue"
    numbers = (
        [amount_text(held.resource, each) for each in (held.asked, held.used, held.limit)] if held.resource else []
    )
    asked, used, limit = numbers or ("", "", "")
    return PodHold(
        kind,
        group if kind == "group" else held.queue,
        held.message,
        why=held.why.value,
        blocker=held.blocker,
        resource=held.resource,
        asked=asked,
        used=used,
        limit=limit,
        together=1 if remedy is None else remedy.together,
        position=position,
    )


def _next_of(held: QueueWait, about: PodExplanation, position: int | None, remedy: QueueRemedy | None) -> str:
    if remedy is not None:
        before = f"; {position} before it in queue {held.queue} come first" if position else ""
        return remedy_text(remedy, about.group) + before
    words = _NEXT[held.why].format(queue=held.queue, blocker=held.blocker, opt_in=OPT_IN, scheduler=about.scheduler)
    return f"{position} before it in queue {held.queue} come first; then {words}" if position else words


def remedy_text(remedy: QueueRemedy, group: str = "") -> str:
    """What would help, as it was tried out. What has to become free is the least of it: others may come first."""
    growth = [
        f"the capability of queue {each.queue} has to grow from {_amount(each, each.stated)} to "
        f"{_amount(each, each.needed)} {each.resource}"
        for each in remedy.growth
    ]
    if remedy.never:
        whose = f"its group {group} asks" if group else "it asks"
        over = " and ".join(
            f"for {_amount(each, each.asked)} {each.resource} where queue {each.queue} may use "
            f"{_amount(each, each.limit)} at most"
            for each in remedy.never
        )
        less = "its pods have to ask for less" if group else "it has to ask for less"
        steps = ", or ".join(filter(None, (" and ".join(growth), less)))
        return f"{whose} {over}, so nothing that becomes free helps: {steps}"
    lacking = [f"{_amount(each, each.lacking)} {each.resource} in queue {each.queue}" for each in remedy.missing]
    free = f"{' and '.join(lacking)} {'have' if len(lacking) > 1 else 'has'} to become free"
    if not remedy.growth and not remedy.pods_to_end:
        return f"at least {free}, which may not be enough"
    ends = f" (it would do if {_listed(remedy.pods_to_end)} ended)" if remedy.pods_to_end else ""
    return f"at least {free}{ends}" + (f", or {' and '.join(growth)}" if growth else "")


def _amount(where: MissingCapacity | CapabilityGrowth, amount: int) -> str:
    return amount_text(where.resource, amount)


def _listed(keys: Sequence[str]) -> str:
    """All of them: fewer would not be enough."""
    return f"pod {keys[0]}" if len(keys) == 1 else f"pods {', '.join(keys)}"


def _behind(about: PodExplanation, queues: QueueEngine) -> tuple[PodHold, str]:
    """What the queue would say if the gates before it were gone."""
    remedy = queues.remedy_behind_gates(about.uid)
    if remedy is None:
        return PodHold(
            "queue", about.queue, f"queue {about.queue} has room for it as of now, and promises nothing yet"
        ), ""
    first = remedy.missing[0]
    asked, used, limit = (_amount(first, each) for each in (first.asked, first.used, first.limit))
    text = f"queue {first.queue} has no room for {asked} {first.resource} as of now: {used} of {limit} are taken"
    hold = PodHold(
        "queue",
        about.queue,
        text,
        why=WaitReason.FULL.value,
        blocker=first.queue,
        resource=first.resource,
        asked=asked,
        used=used,
        limit=limit,
        together=remedy.together,
    )
    return hold, f"then {remedy_text(remedy, about.group)}"


def _said(pod: Wire, about: PodExplanation, scheduled: Wire) -> tuple[PodHold, str]:
    """Nothing of ours holds it: what its scheduler said."""
    nominated = (pod.get("status") or {}).get("nominatedNodeName") or ""
    message, reason = scheduled.get("message") or "", scheduled.get("reason") or ""
    if nominated:
        text = f"node {nominated} is kept for it until other pods have left there"
        return PodHold("node", nominated, text, why=reason), f"pods have to leave node {nominated}"
    if reason == conditions.UNSCHEDULABLE:
        step = "a node has to fit: others leave, a new one comes, or an autoscaler makes one"
        return PodHold("node", "", message, why=reason), step
    if gate_names(pod):
        text = message or "it has scheduling gates"
        return PodHold("scheduler", about.scheduler, text, why=reason), "its gates have to go"
    if scheduled.get("status") == "False":
        step = "it is tried again by itself"
        return PodHold("scheduler", about.scheduler, message or reason, why=reason), step
    text = f"scheduler {about.scheduler} has said nothing about it yet"
    return PodHold(
        "scheduler", about.scheduler, text
    ), f"scheduler {about.scheduler} has to try it; if this stays so, look whether a scheduler of that name runs"
