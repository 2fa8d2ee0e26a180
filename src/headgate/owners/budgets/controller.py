"""Keeps the status of PodDisruptionBudgets true: hears, wakes, and orders the steps. See the package for the parts.

The API server takes from the same status what evictions are granted, so it is written whole and only over the version
that was looked at: who comes too late looks again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from headgate.kube.labels import from_label_selector
from headgate.kube.resource import POD_DISRUPTION_BUDGETS, PODS, Resource
from headgate.kube.revisions import revision_of
from headgate.kube.timestamps import format_time
from headgate.owners.budgets import words
from headgate.owners.budgets.scales import WATCHED, Scales, expected
from headgate.owners.budgets.status import Underway, counted, desired, failed, needs_scale, underway
from headgate.owners.budgets.tallies import Key, Tallies, Tally, read
from headgate.owners.budgets.traces import stale_at_s, taken_back
from headgate.owners.contract import WHOLE, Again, Controller, Done, Interest, Later, Steps, Wake
from headgate.owners.effects import Answer, Effect, Get, Patch, Replace
from headgate.owners.served import Served

Object = dict[str, Any]

_POD_FIELDS: Final = (
    "metadata.labels",
    "metadata.ownerReferences",
    "metadata.deletionTimestamp",
    "metadata.generation",
    "status.phase",
    "status.conditions",
)
_SOON_S: Final = 0.02
"""Pods change in bursts: what happens within this time is counted in one go."""


class _Budget(msgspec.Struct, frozen=True):
    key: Key


class _Crowded(msgspec.Struct, frozen=True):
    """A pod that more than one budget means."""

    uid: str


class _Announced(msgspec.Struct, frozen=True):
    """A pod of which somebody said that it would be disrupted."""

    namespace: str
    name: str
    uid: str


class Budgets(Controller):
    name = "budgets"

    def __init__(self) -> None:
        self._served = Served()
        self._budgets: Final[dict[Key, Object]] = {}
        self._tallies: Final = Tallies()
        self._scales: Final = Scales()

    def learn(self, served: Served) -> Iterable[Wake]:
        self._served = served
        return ()

    def interests(self) -> Iterable[Interest]:
        yield Interest(POD_DISRUPTION_BUDGETS, WHOLE)
        yield Interest(PODS, frozenset(_POD_FIELDS))
        for resource, fields in WATCHED.items():
            yield Interest(resource, fields)

    # -- events in -------------------------------------------------------------------------------------------------

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        if resource == PODS:
            return self._pod_applied(obj, now_s)
        if resource == POD_DISRUPTION_BUDGETS:
            return [Wake(_Budget(key)) for key in self._budget_applied(obj)]
        self._scales.applied(resource, obj)
        return ()

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        if resource == PODS:
            return [Wake(_Budget(key), _SOON_S) for key in self._tallies.pod_removed(uid)]
        if resource == POD_DISRUPTION_BUDGETS:
            if self._budgets.get((namespace, name), {}).get("metadata", {}).get("uid") == uid:
                del self._budgets[namespace, name]
                self._tallies.budget_removed((namespace, name))
        else:
            self._scales.removed(resource, namespace, name, uid)
        return ()

    def _pod_applied(self, obj: Object, now_s: float) -> Iterable[Wake]:
        pod = read(obj)
        wakes = [Wake(_Budget(key), _SOON_S) for key in self._tallies.pod_applied(pod)]
        if wakes and len(self._tallies.covering(pod.uid)) > 1:
            wakes.append(Wake(_Crowded(pod.uid)))
        at_s = stale_at_s(obj)
        if at_s is not None:
            wakes.append(Wake(_Announced(pod.namespace, pod.name, pod.uid), max(0.0, at_s - now_s)))
        return wakes

    def _budget_applied(self, obj: Object) -> Iterable[Key]:
        """From the watch, or from an answer to us: what is older than what is known is no news."""
        metadata = obj["metadata"]
        key = metadata["namespace"], metadata["name"]
        known = self._budgets.get(key)
        if known is not None and known["metadata"]["uid"] == metadata["uid"] and revision_of(known) >= revision_of(obj):
            return ()
        self._budgets[key] = obj
        self._tallies.budget_applied(key, from_label_selector((obj.get("spec") or {}).get("selector")))
        return (key,)

    # -- work ------------------------------------------------------------------------------------------------------

    def work(self, key: _Budget | _Crowded | _Announced, now_s: float) -> Steps:
        match key:
            case _Budget(which):
                return (yield from self._count(which, now_s))
            case _Crowded(uid):
                pod, budgets = self._tallies.pod(uid), self._tallies.covering(uid)
                if pod is not None and len(budgets) > 1:
                    yield words.several_budgets(pod, budgets)
                return Done()
            case _Announced():
                return (yield from _take_back(key, now_s))

    def _count(self, key: Key, now_s: float) -> Steps:
        budget = self._budgets.get(key)
        if budget is None:
            return Done()
        tally = self._tallies.tally(key)
        if not tally.pods:
            yield words.no_pods(budget)
        counts = yield from self._expected(budget, tally)
        if self._budgets.get(key) is not budget:
            return Done()  # it changed while the server was asked, and is looked at again for that
        going = underway(budget, tally, partial(self._tallies.named, key[0]), now_s)
        if isinstance(counts, str):
            yield words.uncountable(budget, counts)
            status = failed(budget, counts, format_time(now_s))
        else:
            if tally.unmanaged and needs_scale(budget["spec"]):
                yield words.unmanaged(budget)
            for pod in going.overdue:
                yield words.not_deleted(budget, pod)
            status = counted(budget, going, tally.healthy, *counts, format_time(now_s))
        return (yield from self._write(key, budget, status, going, now_s))

    def _expected(self, budget: Object, tally: Tally) -> Generator[Effect, Answer, tuple[int, int] | str]:
        """How many pods there should be, and how many of them must stay."""
        total: int | str = len(tally.pods)
        if needs_scale(budget["spec"]):
            total = yield from expected(self._scales, self._served, budget["metadata"]["namespace"], tally)
        if isinstance(total, str):
            return total
        wanted = desired(budget["spec"], total)
        return wanted if isinstance(wanted, str) else (total, wanted)

    def _write(self, key: Key, budget: Object, status: Object, going: Underway, now_s: float) -> Steps:
        if status != (budget.get("status") or {}):
            new = {**budget, "status": status}
            answer = yield Replace(POD_DISRUPTION_BUDGETS, *key, new, subresource="status")
            if answer.missing:
                return Done()
            if not answer.ok:
                return Again(answer.message)
            self._budget_applied(answer.body)
        return Done() if going.next_end_s is None else Later(max(going.next_end_s - now_s, 0.0) + _SOON_S)


def _take_back(key: _Announced, now_s: float) -> Steps:
    answer = yield Get(PODS, key.namespace, key.name, _POD_FIELDS)
    if answer.missing or (answer.ok and answer.body["metadata"]["uid"] != key.uid):
        return Done()
    if not answer.ok:
        return Again(answer.message)
    at_s = stale_at_s(answer.body)
    if at_s is None:
        return Done()
    if at_s > now_s:
        return Later(at_s - now_s)
    body = taken_back(answer.body, format_time(now_s))
    answer = yield Patch(PODS, key.namespace, key.name, body, subresource="status")
    return Done() if answer.ok or answer.missing else Again(answer.message)
