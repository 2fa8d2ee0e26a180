"""Explains why a pod waits: its holds, in the order in which they must end, and what has to happen next.

A *hold* is one thing that the pod waits for: a scheduling gate, its queue, its group, a plugin, a node. The functions
ask a queue engine (``engine.py``) of the same kind as the scheduler's, which ``runtime/inspection/queues.py`` has built
from lists of all objects. A pod that has a node, has ended, or belongs to another scheduler gets one sentence.
``cli/commands/explain.py`` prints the result.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.capacity.api.ignored_annotations import find_ignored_annotations
from headgate.capacity.engine import (
    CapabilityGrowth,
    MissingCapacity,
    PromiseInfo,
    QueueEngine,
    QueueRemedy,
    QueueWait,
    WaitReason,
)
from headgate.capacity.names import GATE, GROUP_NAMES, LEASE, MAX_PODS_WITHOUT_NODE, OPT_IN, QUEUE_NAME
from headgate.kube import conditions
from headgate.kube.resource_amounts import amount_text
from headgate.kube.scheduling_gates import SCHEDULING_GATED, gate_names
from headgate.kube.timestamps import format_time, human_duration, parse_micro_time

JSONObject = Mapping[str, Any]
"""An API object, or a part of one, as decoded JSON."""

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_GROUP_REASONS: Final = frozenset(
    {WaitReason.NO_GROUP, WaitReason.NOT_ENOUGH_PODS, WaitReason.NOT_INQUEUE, WaitReason.NOT_SUPPORTED}
)
_QUEUED_REASONS: Final = frozenset(
    {
        WaitReason.FULL,
        WaitReason.WAITING_TURN,
        WaitReason.TERMINATING_PODS,
        WaitReason.WINDOW_FULL,
        WaitReason.BEHIND_FIRST,
    }
)
_NO_NODE_REASONS: Final = (conditions.UNSCHEDULABLE, conditions.WAITING_FOR_TERMINATING_PODS)
"""Reasons of pods that were tried and fit no node; if such a pod did not opt in, it returned its grant."""
_PLUGIN_REASONS: Final = (
    conditions.UNSCHEDULABLE,
    conditions.SCHEDULER_ERROR,
    conditions.WAITING_ON_PERMIT,
    conditions.WAITING_ON_PRE_BIND,
    conditions.WAITING_FOR_QUEUE,
    SCHEDULING_GATED,
)
"""Reasons of pods that a plugin of another extension point than PreEnqueue may reject; the message names the plugin."""
_USER_CLIENT: Final = "kubectl"
"""How the field managers of kubectl begin."""
WAITS_FOR: Final = {
    "gate": "a gate of another controller",
    "queue": "its queue",
    "group": "its group",
    "node": "a node",
    "plugin": "a plugin of its scheduler",
    "scheduler": "its scheduler",
}
_NEXT_STEPS: Final[Mapping[WaitReason, str]] = {
    WaitReason.FULL: "capacity for it has to become free in queue {blocker}",
    WaitReason.NOT_INQUEUE: "capacity for its group has to become free in queue {blocker}",
    WaitReason.NO_QUEUE: "queue {queue} has to be created, or {queue_setting} has to name another queue",
    WaitReason.CLOSED: "queue {queue} has to be opened",
    WaitReason.NOT_LEAF: "{queue_setting} has to name a queue below {queue}, or those queues have to be deleted",
    WaitReason.INVALID: "that error has to be fixed; no other problem of the pod is known",
    WaitReason.NOT_SUPPORTED: "that field of its PodGroup has to be changed or removed",
    WaitReason.PLUGIN: "what that plugin waits for has to happen",
    WaitReason.NO_GROUP: "its PodGroup has to be created",
    WaitReason.NOT_ENOUGH_PODS: (
        "more pods of its group have to be created or become ready to start: a gang starts whole or not at all"
    ),
    WaitReason.NOT_OPTED_IN: (
        'the gate has to be removed by hand (headgate gates lift), or the pod created again with {opt_in}: "true"'
    ),
    WaitReason.GATE_REMOVAL_REFUSED: "the API server has to accept the removal of the gate; the scheduler retries it",
    WaitReason.LOST_TURN: (
        "pods in queue {blocker} have to end, or its capability has to grow, until the older promises fit"
    ),
    WaitReason.LAPSED: (
        "a node that fits it has to be added or become free: check its node selector, its tolerations, and what the "
        "autoscaler says about it; it asks queue {queue} again by itself"
    ),
    WaitReason.REVOKED: (
        "pods in queue {queue} have to end, its capability has to grow, or a node that fits has to be added"
    ),
    WaitReason.WINDOW_FULL: (
        "pods of queue {blocker} that wait for a node have to get one or to wait longer than its annotation "
        "headgate.dev/without-node-timeout says (default 10m), or its annotation headgate.dev/max-pods-without-node "
        "has to grow"
    ),
    WaitReason.BEHIND_FIRST: (
        "the first in line of queue {queue} has to start, or another dequeue strategy has to be set for the queue "
        "(annotation headgate.dev/dequeue-strategy)"
    ),
    WaitReason.TERMINATING_PODS: "terminating pods in queue {blocker} have to leave their nodes",
    WaitReason.WAITING_TURN: "the scheduler has to run its next cycle; check that a scheduler runs for {scheduler}",
}


class PodGate(msgspec.Struct, frozen=True):
    """A scheduling gate. ``by``: the client that set it; ``since``: when, as an API timestamp. Both come from the pod's
    managed fields and are empty if these do not show them."""

    name: str
    by: str = ""
    since: str = ""


class PodHold(msgspec.Struct, frozen=True, omit_defaults=True):
    """One hold on the pod. ``kind``: gate, plugin, queue, group, node or scheduler. ``why``: the reason as the queue or
    the pod's condition gives it. ``by`` and ``since``: for a gate, as in :class:`PodGate`; other holds have no
    ``since``, because the transition time of a condition changes only with its status. ``blocker``: the queue without
    capacity, which may be an ancestor of the pod's queue. Amounts are texts for users."""

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
    """How many pods of its group are granted together, itself included; ``asked`` is their sum."""
    position: int | None = None
    """The number of units before it in its queue; pods that are granted together are one unit."""


class PodExplanation(msgspec.Struct, frozen=True):
    """``state``: waiting, placed (on a node), leaving (terminating), ended, or foreign (it belongs to another
    scheduler). ``next``: what has to happen next, one sentence for each hold that needs an action. ``promised_at``:
    when its queue promised its capacity, if it has no node yet; ``lease``: how long that promise lasts. ``ignored``:
    annotations that have no effect because of their values."""

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
    promised_at: str = ""
    lease: str = ""
    ignored: tuple[str, ...] = ()


def explain(
    pod: JSONObject,
    queues: QueueEngine | None,
    requests: Mapping[str, int],
    gates: Sequence[PodGate],
    served: Collection[str],
) -> PodExplanation:
    """``queues``: the queue engine with all objects; ``None`` if they could not be read. ``requests``: the requests of
    the pod. ``gates``: the gates of the pod, with the client that set each. ``served``: the names of the schedulers
    that use queues."""
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    scheduler = spec.get("schedulerName") or "default-scheduler"
    state, summary = _state_and_summary(metadata, spec, status, scheduler, served)
    uid, annotations = str(metadata.get("uid")), metadata.get("annotations") or {}
    explanation = PodExplanation(
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
        return explanation
    explanation = msgspec.structs.replace(explanation, ignored=tuple(find_ignored_annotations(annotations)))
    promise = queues.find_promise(uid) if queues is not None and state == "waiting" else None
    if promise is not None:
        explanation = msgspec.structs.replace(explanation, promised_at=promise.at, lease=_lease_text(promise))
    found = list(_holds(pod, explanation, queues, gates))
    holds = tuple(hold for hold, _ in found)
    if state == "foreign" and any(hold.kind == "gate" for hold in holds):
        summary = f"{_summary(holds)}; its scheduler {scheduler} does not use queues"
    elif state == "foreign" and any(hold.kind == "plugin" for hold in holds):
        summary = f"it waits for a plugin of its scheduler {scheduler}; it does not use queues"
    steps = tuple(step for _, step in found if step)
    return msgspec.structs.replace(explanation, holds=holds, next=steps, summary=summary or _summary(holds))


def _state_and_summary(
    metadata: JSONObject, spec: JSONObject, status: JSONObject, scheduler: str, served: Collection[str]
) -> tuple[str, str]:
    """The state of the pod, and a sentence about it; the sentence is empty for a waiting pod. ``served``: the names of
    the schedulers that use queues."""
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
            f"its scheduler is {scheduler}, which does not use queues; queues are for {', '.join(served)}",
        )
    return "waiting", ""


def _lease_text(promise: PromiseInfo) -> str:
    """How long the promise lasts. Whether the scheduler has leases, and what renewed this one, is not in the API."""
    source = f"annotation {LEASE} of its {promise.lease_source}"
    source = (source if promise.lease_source != "pod" else f"annotation {LEASE}") if promise.lease_source else "default"
    text = f"its lease lasts {human_duration(promise.lease_s)} ({source})" if promise.lease_s < math.inf else ""
    at_us = parse_micro_time(promise.at)
    if promise.is_committed:
        text = "it never lapses, because another scheduler may bind the pod at any time"
    elif not text:
        text = f"it never lapses ({source})"
    elif isinstance(at_us, int):
        text += (
            f": with the feature gate ReservationLease the promise lapses at "
            f"{format_time(at_us / 1_000_000 + promise.lease_s)} at the earliest, and later if a node is being added "
            "or the scheduler was restarted"
        )
    for name in promise.not_counted_in:
        text += f"; the pod no longer counts in the annotation {MAX_PODS_WITHOUT_NODE} of queue {name}"
    return text


def _summary(holds: Sequence[PodHold]) -> str:
    kinds = list(dict.fromkeys(hold.kind for hold in holds))
    return "it waits for " + ", then for ".join(WAITS_FOR[kind] for kind in kinds)


def _holds(
    pod: JSONObject, explanation: PodExplanation, queues: QueueEngine | None, gates: Sequence[PodGate]
) -> Iterator[tuple[PodHold, str]]:
    """The holds on the pod, in the order in which they must end, each with the next step."""
    other_gates = [each for each in gates if each.name != GATE or explanation.state == "foreign"]
    for each in other_gates:
        text = "a gate of another controller, which has to remove it; the queue promises nothing before that"
        yield (
            PodHold("gate", each.name, text, by=each.by, since=each.since),
            f"{_remover(each)} has to remove {each.name}",
        )
    wait = queues.peek_wait_reason(explanation.uid) if queues is not None and explanation.state == "waiting" else None
    scheduled = _pod_scheduled(pod)
    plugin = _plugin_hold(scheduled)
    if plugin is not None and not other_gates:
        yield plugin
        if wait is not None and wait.why is WaitReason.WAITING_TURN:
            return  # the queue has capacity; only the plugin holds the pod
    if wait is not None and wait.why is WaitReason.FOREIGN_GATE and queues is not None:
        yield _hold_behind_gates(explanation, queues)
    elif wait is not None and not (wait.why is WaitReason.WAITING_TURN and scheduled.get("reason") in _NO_NODE_REASONS):
        position = queues.position(explanation.uid) if queues is not None and wait.why in _QUEUED_REASONS else None
        remedy = queues.remedy(explanation.uid) if queues is not None and wait.resource else None
        yield _queue_hold(wait, explanation.group, position, remedy), _next_step(wait, explanation, position, remedy)
    elif not other_gates and plugin is None:
        yield _scheduler_hold(pod, explanation, scheduled)


def _remover(gate: PodGate) -> str:
    """The client that set a gate usually removes it; a user who created the pod with kubectl does not."""
    return gate.by if gate.by and not gate.by.startswith(_USER_CLIENT) else "its owner"


def _pod_scheduled(pod: JSONObject) -> JSONObject:
    return conditions.find((pod.get("status") or {}).get("conditions"), conditions.POD_SCHEDULED) or {}


def _plugin_hold(scheduled: JSONObject) -> tuple[PodHold, str] | None:
    """A PreEnqueue plugin that rejects the pod or fails, according to the pod's condition."""
    reason = scheduled.get("reason") or ""
    message = scheduled.get("message") or ""
    found = conditions.parse_pre_enqueue_message(reason, message)
    if found is None:
        return _rejection_hold(reason, message)
    plugin, text = found
    step = f"what plugin {plugin} waits for has to happen"
    if reason == conditions.SCHEDULER_ERROR:
        step = f"plugin {plugin} fails on the pod: the plugin has to be fixed, or the pod changed"
    return PodHold("plugin", plugin, text, why=reason), step


def _rejection_hold(reason: str, message: str) -> tuple[PodHold, str] | None:
    """A plugin of another extension point that rejects the pod, makes it wait or fails."""
    found = conditions.parse_plugin_message(message) if reason in _PLUGIN_REASONS else None
    if found is None:
        return None
    plugin, text = found
    step = f"what plugin {plugin} waits for has to happen"
    if reason == conditions.SCHEDULER_ERROR or conditions.is_plugin_error(message):
        step = f"it is retried automatically; if plugin {plugin} keeps failing, fix the plugin or change the pod"
        text = message  # with the extension point
    return PodHold("plugin", plugin, text, why=reason), step


def _queue_hold(wait: QueueWait, group: str, position: int | None, remedy: QueueRemedy | None) -> PodHold:
    kind = "group" if wait.why in _GROUP_REASONS else "queue"
    numbers = (
        [amount_text(wait.resource, each) for each in (wait.asked, wait.used, wait.limit)] if wait.resource else []
    )
    asked, used, limit = numbers or ("", "", "")
    return PodHold(
        kind,
        group if kind == "group" else wait.queue,
        wait.message,
        why=wait.why.value,
        blocker=wait.blocker,
        resource=wait.resource,
        asked=asked,
        used=used,
        limit=limit,
        together=1 if remedy is None else remedy.together,
        position=position,
    )


def _next_step(wait: QueueWait, explanation: PodExplanation, position: int | None, remedy: QueueRemedy | None) -> str:
    if remedy is not None:
        before = f"; {position} before it in queue {wait.queue} come first" if position else ""
        return remedy_text(remedy, explanation.group) + before
    # Both may be changed while the pod waits.
    setting = f"spec.queue of PodGroup {explanation.group}" if explanation.group else f"the annotation {QUEUE_NAME}"
    text = _NEXT_STEPS[wait.why].format(
        queue=wait.queue,
        blocker=wait.blocker,
        opt_in=OPT_IN,
        scheduler=explanation.scheduler,
        queue_setting=setting,
    )
    return f"{position} before it in queue {wait.queue} come first; then {text}" if position else text


def remedy_text(remedy: QueueRemedy, group: str = "") -> str:
    """The remedy as a text. The amount that must become free is a lower bound, because other units may come first."""
    growth = _growth_text(remedy.growth)
    if remedy.too_small_limits:
        subject = f"its group {group} asks" if group else "it asks"
        over = " and ".join(
            f"for {_amount(each, each.asked)} {each.resource} where queue {each.queue} may use "
            f"{_amount(each, each.limit)} at most"
            for each in remedy.too_small_limits
        )
        less = "its pods have to ask for less" if group else "it has to ask for less"
        if growth and remedy.growth_alone and remedy.growth_alone != remedy.growth:
            enough = " and ".join(
                f"{_amount(each, each.needed)} {each.resource} in queue {each.queue}" for each in remedy.growth_alone
            )
            growth = f"{growth} ({enough} will do once no other pod uses capacity or waits for it)"
        steps = ", or ".join(filter(None, (growth, less)))
        return f"{subject} {over}, so freed capacity does not help: {steps}"
    lacking = [f"{_amount(each, each.lacking)} {each.resource} in queue {each.queue}" for each in remedy.missing]
    free = f"{' and '.join(lacking)} {'have' if len(lacking) > 1 else 'has'} to become free"
    if not remedy.growth and not remedy.pods_to_end:
        return f"at least {free}, which may not be enough"
    ends = f" (the end of {_pod_list(remedy.pods_to_end)} is enough)" if remedy.pods_to_end else ""
    return f"at least {free}{ends}" + (f", or {growth}" if growth else "")


def _growth_text(growth: Iterable[CapabilityGrowth]) -> str:
    return " and ".join(
        f"the capability of queue {each.queue} has to grow from {_amount(each, each.stated)} to "
        f"{_amount(each, each.needed)} {each.resource}"
        for each in growth
    )


def _amount(entry: MissingCapacity | CapabilityGrowth, amount: int) -> str:
    return amount_text(entry.resource, amount)


def _pod_list(keys: Sequence[str]) -> str:
    """Lists all pods: fewer would not be enough."""
    return f"pod {keys[0]}" if len(keys) == 1 else f"pods {', '.join(keys)}"


def _hold_behind_gates(explanation: PodExplanation, queues: QueueEngine) -> tuple[PodHold, str]:
    """The hold of the queue, as if the gates of other components were removed."""
    remedy = queues.remedy_behind_gates(explanation.uid)
    if remedy is None:
        return PodHold(
            "queue", explanation.queue, f"queue {explanation.queue} has capacity for it now, but promises nothing yet"
        ), ""
    first = remedy.missing[0]
    asked, used, limit = (_amount(first, each) for each in (first.asked, first.used, first.limit))
    text = f"queue {first.queue} has no capacity for {asked} {first.resource} now: {used} of {limit} are taken"
    hold = PodHold(
        "queue",
        explanation.queue,
        text,
        why=WaitReason.FULL.value,
        blocker=first.queue,
        resource=first.resource,
        asked=asked,
        used=used,
        limit=limit,
        together=remedy.together,
    )
    return hold, f"then {remedy_text(remedy, explanation.group)}"


def _scheduler_hold(pod: JSONObject, explanation: PodExplanation, scheduled: JSONObject) -> tuple[PodHold, str]:
    """The hold according to the pod's status, for a pod that neither gates of other controllers nor the queue hold."""
    nominated = (pod.get("status") or {}).get("nominatedNodeName") or ""
    message, reason = scheduled.get("message") or "", scheduled.get("reason") or ""
    if nominated:
        text = f"node {nominated} is nominated for it; other pods have to leave that node first"
        return PodHold("node", nominated, text, why=reason), f"pods have to leave node {nominated}"
    if reason == conditions.UNSCHEDULABLE:
        step = "a node has to fit it: other pods have to leave, or a node has to be added"
        return PodHold("node", "", message, why=reason), step
    if gate_names(pod):
        text = message or "it has scheduling gates"
        return PodHold("scheduler", explanation.scheduler, text, why=reason), "its gates have to be removed"
    if scheduled.get("status") == "False":
        step = "it is retried automatically"
        return PodHold("scheduler", explanation.scheduler, message or reason, why=reason), step
    text = f"scheduler {explanation.scheduler} has said nothing about it yet"
    return PodHold(
        "scheduler", explanation.scheduler, text
    ), f"scheduler {explanation.scheduler} has to try it; if it does not, check that a scheduler of that name runs"
