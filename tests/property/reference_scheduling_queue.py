"""The scheduling queue as a slow, obvious reference: one list of pods, scanned for every event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import floor, inf
from typing import Any

import msgspec

from headgate.scheduling.framework.cluster_events import ClusterEvent, force_activate, pod_update_events
from headgate.scheduling.framework.interface import PreEnqueuePlugin, Rejection
from headgate.waiting.queueing_hints import ClusterEventWithHint
from unit.scheduling.pods import APod

LIMIT_S = 300.0


class SlowPod(msgspec.Struct, eq=False):
    pod: APod
    since_s: float
    where: str = "nowhere"
    attempts: int = 0
    rejected: int = 0
    errors: int = 0
    initial_s: float | None = None
    rejections: tuple[Rejection, ...] = ()
    held_by: list[str] = []
    gating: Rejection | None = None
    until_s: float = inf
    parking: int = 0
    happened: list[ClusterEvent] = []
    latest: APod | None = None
    gone: bool = False

    def order(self) -> tuple[Any, ...]:
        return -self.pod.priority, self.since_s, self.pod.created_s, self.pod.namespace, self.pod.name

    def backoff_end(self) -> float:
        count = self.errors or self.rejected
        return floor(self.since_s + min(2 ** (count - 1), 10)) if count else -inf

    def backs_off(self, now_s: float) -> bool:
        return self.backoff_end() >= floor(now_s)

    def waits_for(self) -> list[ClusterEventWithHint]:
        reasons = (self.gating,) if self.gating is not None else self.rejections
        return [waker for reason in reasons for waker in reason.wakers]


def heard(wakers: Any, event: ClusterEvent) -> bool:
    for waker in wakers:
        named = waker.topic in ((event.resource, event.action), ("*", event.action))
        if (
            named
            and (event.target is not None or not waker.own)
            and (waker.guard is None or waker.guard.matches(event))
        ):
            return True
    return False


class SlowQueue:
    def __init__(self, plugins: tuple[PreEnqueuePlugin, ...], owned: Callable[[str], bool]) -> None:
        self.plugins, self.owned = plugins, owned
        self.pods: list[SlowPod] = []
        self.flights: list[SlowPod] = []
        self.incoming: Counter[tuple[str, str]] = Counter()
        self.promised: dict[str, str] = {}
        self.parkings = 0

    def find(self, uid: str) -> SlowPod | None:
        return next((each for each in self.pods if each.pod.uid == uid), None)

    def at(self, *places: str) -> list[SlowPod]:
        return sorted((each for each in self.pods if each.where in places), key=SlowPod.order)

    # What comes in

    def add(self, pod: APod, label: str, now_s: float) -> None:
        known = self.find(pod.uid)
        if known is None:
            known = SlowPod(pod, now_s)
            self.pods.append(known)
            if self.activate_one(known, label, now_s):
                self.promise(pod.uid, pod.nominated_node)
            return
        old = known.latest or known.pod
        happened = pod_update_events(old, pod, self.owned)
        if known.where == "scheduling":
            known.latest = pod
            known.happened += happened
        else:
            known.pod = pod
            self.promise(pod.uid, pod.nominated_node or ("" if old.nominated_node else self.promised.get(pod.uid, "")))
            for event in happened:
                if known.where in ("gated", "unschedulable") and heard(known.waits_for(), event):
                    self.requeue(known, event.label, now_s, self.hurries(known, event))
                    break
        if old.nominated_node and old.nominated_node != pod.nominated_node:
            self.event(ClusterEvent("AssignedPod", "Delete", old=old), now_s, old.priority)

    def promise(self, uid: str, node: str) -> None:
        self.promised.pop(uid, None)
        if node:
            self.promised[uid] = node

    def delete(self, uid: str, now_s: float) -> None:
        self.promised.pop(uid, None)
        known = self.find(uid)
        if known is None:
            return
        self.pods.remove(known)
        known.gone = True
        pod = known.latest or known.pod
        if pod.nominated_node:
            self.event(ClusterEvent("AssignedPod", "Delete", old=pod), now_s, pod.priority)

    def event(self, event: ClusterEvent, now_s: float, at_most: float = inf) -> None:
        for each in self.at("gated", "unschedulable"):
            if each.pod.priority <= at_most and (event.resource == "*" or heard(each.waits_for(), event)):
                self.requeue(each, event.label, now_s, self.hurries(each, event))
        for flight in self.flights:
            flight.happened.append(event)

    def hurries(self, each: SlowPod, event: ClusterEvent) -> bool:
        if event.resource == "*":
            return False
        return any(reason.pending and heard(reason.wakers, event) for reason in each.rejections)

    # Trying

    def pop(self, now_s: float) -> SlowPod | None:
        self.requeue_due(now_s)
        if active := self.at("active"):
            found = active[0]
        elif backing := sorted(self.at("backoff"), key=SlowPod.backoff_end):
            found = backing[0]
            self.incoming["active", "PopFromBackoffQ"] += 1
        else:
            return None
        found.where, found.attempts = "scheduling", found.attempts + 1
        found.held_by, found.rejections, found.gating = [], (), None
        found.happened, found.latest = [], found.pod
        self.flights.append(found)
        return found

    def fail(self, each: SlowPod, rejections: tuple[Rejection, ...], now_s: float) -> None:
        self.flights.remove(each)
        if each.gone:
            return
        assert each.latest is not None
        each.pod, each.latest, each.since_s, each.rejections = each.latest, None, now_s, rejections
        each.held_by = list(dict.fromkeys(reason.plugin for reason in rejections))
        if rejections:
            each.rejected, each.errors = each.rejected + 1, 0
        else:
            each.errors += 1
        helped = [
            event
            for event in each.happened
            if event.resource == "*" or any(heard(reason.wakers, event) for reason in rejections)
        ]
        if helped or not rejections:
            hurry = any(self.hurries(each, event) for event in helped)
            self.requeue(each, "ScheduleAttemptFailure", now_s, hurry)
        else:
            self.park(each, "ScheduleAttemptFailure", now_s)

    def done(self, each: SlowPod) -> None:
        self.flights.remove(each)
        if not each.gone:
            self.pods.remove(each)
            self.promised.pop(each.pod.uid, None)

    def activate(self, uid: str, now_s: float) -> None:
        known = self.find(uid)
        if known is None or known.where == "active":
            return
        if known.where == "scheduling":
            known.happened.append(force_activate(uid))
        else:
            self.activate_one(known, "ForceActivate", now_s)

    def requeue_due(self, now_s: float) -> None:
        for each in self.at("backoff", "error-backoff"):
            if not each.backs_off(now_s):
                self.activate_one(each, "BackoffComplete", now_s)
        due = [each for each in self.at("gated", "unschedulable") if each.until_s <= now_s]
        for each in sorted(due, key=lambda each: (each.until_s, each.parking)):
            self.requeue(each, "UnschedulableTimeout", now_s, False)

    # Steps

    def requeue(self, each: SlowPod, label: str, now_s: float, hurry: bool) -> None:
        if hurry or not each.backs_off(now_s):
            self.activate_one(each, label, now_s)
        elif not self.gate(each, label, now_s):
            each.where = "backoff" if each.held_by else "error-backoff"
            self.incoming["backoff", label] += 1

    def activate_one(self, each: SlowPod, label: str, now_s: float) -> bool:
        if each.where not in ("backoff", "error-backoff") and self.gate(each, label, now_s):
            return False
        if each.initial_s is None:
            each.initial_s = now_s
        each.where = "active"
        self.incoming["active", label] += 1
        return True

    def gate(self, each: SlowPod, label: str, now_s: float) -> bool:
        holder = None if each.gating is None else each.gating.plugin
        first = [plugin for plugin in self.plugins if plugin.name == holder]
        for plugin in first + [plugin for plugin in self.plugins if plugin.name != holder]:
            each.gating = plugin.pre_enqueue(each.pod)
            if each.gating is not None:
                if plugin.name not in each.held_by:
                    each.held_by.append(plugin.name)
                self.park(each, label, now_s)
                return True
        return False

    def park(self, each: SlowPod, label: str, now_s: float) -> None:
        where = "unschedulable" if each.gating is None else "gated"
        if each.where != where:
            self.incoming["unschedulable", label] += 1
        each.where = where
        reasons = (each.gating,) if each.gating is not None else each.rejections
        each.until_s = now_s + LIMIT_S if any(reason.expires for reason in reasons) else inf
        each.parking, self.parkings = self.parkings, self.parkings + 1
