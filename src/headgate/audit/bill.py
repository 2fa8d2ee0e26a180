"""The bill: machines and quota that were paid for and not used, for any scheduler.

- *Machines*: a machine that was bought is idle until its first pod, and again when it has none; pods of DaemonSets do
  not count. A machine that never ran a pod is *wasted*. If pods that their queue would not admit were marked
  Unschedulable when it was ordered, it was bought for them.
- *Machines missed*: a pod that has capacity of its queue and no node, and is not marked Unschedulable, is invisible to
  autoscalers. These hours are counted, unless terminating pods will make room.
- *Quota-hours*: quota that is held by pods without a node, by terminating pods, or by pods behind a gate of another
  component.

Times are those of the recording; a state that began before counts from its beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.audit.pod_facts import PodFacts, seconds
from headgate.audit.prices import PriceTable, node_type
from headgate.audit.queue_judge import QueueJudge
from headgate.kube import conditions
from headgate.kube.resource_amounts import read_amounts

Object = dict[str, Any]

_HOUR_S: Final = 3600.0
UNPLACED: Final = "unplaced"
TERMINATING: Final = "terminating"
FOREIGN_GATE: Final = "behind a foreign gate"
PLACED: Final = "placed"
_HIDDEN: Final = (conditions.WAITING_FOR_TERMINATING_PODS, conditions.WAITING_ON_PERMIT, conditions.WAITING_ON_PRE_BIND)


class MachineBill(msgspec.Struct, frozen=True, rename="camel"):
    """``bought_for``: pods that their queue would not admit when the machine was ordered."""

    name: str
    type: str
    hours: float
    idle_hours: float
    cost: float
    idle_cost: float
    never_used: bool
    bought_for: tuple[str, ...] = ()


class QuotaBill(msgspec.Struct, frozen=True, rename="camel"):
    """What pods in this state held of a queue's quota. ``amounts``: resource-hours in cores, bytes and pieces."""

    queue: str
    state: str
    hours: float
    amounts: dict[str, float]
    cost: float


class MissedBill(msgspec.Struct, frozen=True, rename="camel"):
    """A pod with capacity of its queue, without a node, that no autoscaler can see."""

    pod: str
    queue: str
    hours: float


class Bill(msgspec.Struct, frozen=True, rename="camel"):
    currency: str
    machines: tuple[MachineBill, ...]
    quota: tuple[QuotaBill, ...]
    missed: tuple[MissedBill, ...]

    @property
    def wasted(self) -> tuple[MachineBill, ...]:
        """Machines that never ran a pod, and were bought for pods that their queue would not admit."""
        return tuple(each for each in self.machines if each.never_used and each.bought_for)

    @property
    def unused(self) -> tuple[MachineBill, ...]:
        """Other machines that never ran a pod."""
        return tuple(each for each in self.machines if each.never_used and not each.bought_for)


class BillTotals(msgspec.Struct, frozen=True):
    """The bill of an audit that goes on. ``wasted`` and ``unused``: machines that are gone and never ran a pod, as in
    :class:`Bill`. ``quota_costs``: by queue and state."""

    machine_hours: float = 0.0
    machine_cost: float = 0.0
    idle_hours: float = 0.0
    idle_cost: float = 0.0
    wasted: int = 0
    wasted_cost: float = 0.0
    unused: int = 0
    unused_cost: float = 0.0
    missed_hours: float = 0.0
    quota_costs: Mapping[tuple[str, str], float] = {}


class _Machine(msgspec.Struct):
    """Mutable: a node while it exists, and its sums."""

    name: str
    type: str
    price: float
    is_bought: bool
    """It appeared during the recording."""
    since_s: float
    bought_for: tuple[str, ...] = ()
    was_used: bool = False
    idle_since_s: float | None = None
    idle_s: float = 0.0
    until_s: float | None = None


class _Holding(msgspec.Struct, frozen=True):
    queue: str
    state: str
    amounts: Mapping[str, float]
    since_s: float


class BillMeter:
    """Receives every change after the checkers did. ``queues`` answers what a queue would admit."""

    def __init__(self, prices: PriceTable, queues: QueueJudge, grace_s: float = 60.0) -> None:
        """``grace_s``: how long a pod may be without a node before it counts as hidden."""
        self._prices = prices
        self._queues = queues
        self._grace_s = grace_s
        self._from_s: float | None = None
        self._machines: dict[str, _Machine] = {}
        self._gone: list[_Machine] = []
        self._claims: dict[str, tuple[str, ...]] = {}  # by NodeClaim: the pods that were not admissible
        self._pending: dict[str, PodFacts] = {}  # Unschedulable, by uid
        self._node_of: dict[str, str] = {}
        self._pods_on: dict[str, set[str]] = {}
        self._holdings: dict[str, _Holding] = {}
        self._held: dict[tuple[str, str], tuple[float, dict[str, float]]] = {}
        self._hidden: dict[str, tuple[PodFacts, str, float]] = {}
        self._missed: list[MissedBill] = []
        self._ended = BillTotals()  # of what was folded

    # -- machines --------------------------------------------------------------------------------------------------

    def take_claim(self, obj: Object, deleted: bool, at_s: float, observed: bool) -> None:
        """A NodeClaim of Karpenter: the machine is ordered before its node appears."""
        name = str(obj["metadata"]["name"])
        if deleted:
            self._claims.pop(name, None)
        elif observed and name not in self._claims:
            self._claims[name] = self._inadmissible()

    def take_node(self, obj: Object, deleted: bool, at_s: float, observed: bool) -> None:
        self._begin(at_s)
        name = str(obj["metadata"]["name"])
        machine = self._machines.get(name)
        if deleted:
            if machine is not None:
                del self._machines[name]
                self._close(machine, at_s)
                self._gone.append(machine)
            if not self._pods_on.get(name):
                self._pods_on.pop(name, None)
            return
        if machine is not None:
            return
        labels = obj["metadata"].get("labels") or {}
        found = read_amounts((obj.get("status") or {}).get("capacity"), "status.capacity")
        price = self._prices.node_cost(labels, {} if isinstance(found, str) else found)
        created_s = seconds(obj["metadata"].get("creationTimestamp")) or at_s
        is_bought = observed or created_s >= (self._from_s or at_s)
        machine = _Machine(name, node_type(labels), price, is_bought, at_s)
        if is_bought:
            machine.bought_for = self._ordered_for(obj)
        self._machines[name] = machine
        self._use(machine, at_s)

    def _ordered_for(self, obj: Object) -> tuple[str, ...]:
        owners = (each.get("name") for each in obj["metadata"].get("ownerReferences") or ())
        for name in owners:
            if name in self._claims:
                return self._claims[name]
        return self._inadmissible()

    def _inadmissible(self) -> tuple[str, ...]:
        """The Unschedulable pods that their queues would not admit now, even one after the other in their order."""
        beside: dict[str, Counter[str]] = {}
        found: list[str] = []
        for pod in sorted(self._pending.values(), key=lambda each: (-each.priority, each.created_s, each.name)):
            queue = self._queues.queue_of(pod)
            if pod.stamp is not None:
                continue  # its capacity is reserved
            if self._queues.exceeded(queue, pod.requests, beside) is not None:
                found.append(f"{pod.namespace}/{pod.name}")
                continue
            for each in self._queues.path(queue):
                beside.setdefault(each, Counter()).update(pod.requests)
        return tuple(found)

    def _use(self, machine: _Machine, at_s: float) -> None:
        if self._pods_on.get(machine.name):
            machine.was_used = True
            if machine.idle_since_s is not None:
                machine.idle_s += at_s - machine.idle_since_s
                machine.idle_since_s = None
        elif machine.idle_since_s is None:
            machine.idle_since_s = at_s

    def _close(self, machine: _Machine, at_s: float) -> None:
        machine.until_s = at_s
        if machine.idle_since_s is not None:
            machine.idle_s += at_s - machine.idle_since_s
            machine.idle_since_s = None

    # -- pods ------------------------------------------------------------------------------------------------------

    def take_pod(self, pod: PodFacts, deleted: bool, at_s: float, has_quota: bool | None) -> None:
        """``has_quota``: whether a Workload holds quota for it; None if it is not in Kueue's queues."""
        self._begin(at_s)
        is_gone = deleted or pod.is_terminal
        self._place(pod, is_gone, at_s)
        is_pending = not is_gone and not pod.is_terminating and not pod.node and not pod.gates
        if is_pending and pod.reason == conditions.UNSCHEDULABLE and self._queues.takes_part(pod):
            self._pending[pod.uid] = pod
        else:
            self._pending.pop(pod.uid, None)
        queue = self._queues.queue_of(pod)
        if has_quota is None and self._queues.takes_part(pod):
            self._hold(pod.uid, queue, None if is_gone else _state(pod, pod.stamp is not None), pod.requests, at_s)
        elif has_quota is None:
            self._hold(pod.uid, "", None, {}, at_s)
        is_granted = pod.stamp is not None or has_quota is True
        is_hidden = is_pending and is_granted and pod.reason != conditions.UNSCHEDULABLE and pod.reason not in _HIDDEN
        self._hide(pod, queue if has_quota is None else pod.kueue_queue, is_hidden, at_s)

    def _place(self, pod: PodFacts, is_gone: bool, at_s: float) -> None:
        before = self._node_of.pop(pod.uid, "")
        now = "" if is_gone or pod.is_daemon else pod.node
        if now:
            self._node_of[pod.uid] = now
        for name in {before, now} - {""}:
            pods = self._pods_on.setdefault(name, set())
            (pods.add if name == now else pods.discard)(pod.uid)
            machine = self._machines.get(name)
            if machine is not None:
                self._use(machine, at_s)
            elif not pods:
                del self._pods_on[name]

    def _hide(self, pod: PodFacts, queue: str, is_hidden: bool, at_s: float) -> None:
        if is_hidden:
            self._hidden.setdefault(pod.uid, (pod, queue, at_s))
        elif (found := self._hidden.pop(pod.uid, None)) is not None:
            self._add_missed(*found, at_s)

    def _add_missed(self, pod: PodFacts, queue: str, since_s: float, at_s: float) -> None:
        if at_s - since_s >= self._grace_s:
            self._missed.append(MissedBill(f"{pod.namespace}/{pod.name}", queue, (at_s - since_s) / _HOUR_S))

    # -- quota -----------------------------------------------------------------------------------------------------

    def hold(self, key: str, queue: str, state: str | None, amounts: Mapping[str, float], at_s: float) -> None:
        """Quota that is not counted by pod. ``state``: None ends it."""
        self._begin(at_s)
        self._hold(key, queue, state, amounts, at_s)

    def _hold(self, key: str, queue: str, state: str | None, amounts: Mapping[str, float], at_s: float) -> None:
        before = self._holdings.get(key)
        if before is not None and (before.queue, before.state, before.amounts) == (queue, state, amounts):
            return
        if before is not None:
            del self._holdings[key]
            self._add_holding(before, at_s)
        if state is not None and state != PLACED:
            self._holdings[key] = _Holding(queue, state, amounts, at_s)

    def _add_holding(self, holding: _Holding, at_s: float) -> None:
        hours = (at_s - holding.since_s) / _HOUR_S
        total, amounts = self._held.setdefault((holding.queue, holding.state), (0.0, {}))
        _add_amounts(amounts, holding.amounts, hours)
        self._held[holding.queue, holding.state] = (total + hours, amounts)

    def _begin(self, at_s: float) -> None:
        self._from_s = at_s if self._from_s is None else self._from_s

    # -- result ----------------------------------------------------------------------------------------------------

    def totals(self, at_s: float) -> BillTotals:
        """The sums until now. Nothing is ended: the audit goes on."""
        found = self._ended
        for machine in self._machines.values():
            idle_s = machine.idle_s + (0.0 if machine.idle_since_s is None else at_s - machine.idle_since_s)
            found = _add_machine(found, machine, at_s - machine.since_s, idle_s)
        quota = {key: (hours, dict(amounts)) for key, (hours, amounts) in self._held.items()}
        for each in self._holdings.values():
            hours, amounts = quota.get((each.queue, each.state), (0.0, {}))
            _add_amounts(amounts, each.amounts, (at_s - each.since_s) / _HOUR_S)
            quota[each.queue, each.state] = hours + (at_s - each.since_s) / _HOUR_S, amounts
        hidden_s = (at_s - since_s for _, _, since_s in self._hidden.values())
        missed = found.missed_hours + sum(each / _HOUR_S for each in hidden_s if each >= self._grace_s)
        costs = {key: self._prices.resources.cost(amounts) for key, (_, amounts) in quota.items()}
        return msgspec.structs.replace(found, missed_hours=missed, quota_costs=costs)

    def fold(self) -> None:
        """Adds what has ended to the sums and forgets it, so that an audit that goes on needs no more memory."""
        for machine in self._gone:
            self._ended = _add_machine(
                self._ended, machine, (machine.until_s or machine.since_s) - machine.since_s, machine.idle_s
            )
        self._gone.clear()
        missed = sum(each.hours for each in self._missed)
        self._ended = msgspec.structs.replace(self._ended, missed_hours=self._ended.missed_hours + missed)
        self._missed.clear()

    def finish(self, at_s: float) -> Bill:
        for machine in self._machines.values():
            self._close(machine, at_s)
        for holding in self._holdings.values():
            self._add_holding(holding, at_s)
        for found in self._hidden.values():
            self._add_missed(*found, at_s)
        machines = sorted([*self._gone, *self._machines.values()], key=lambda each: (each.since_s, each.name))
        return Bill(
            self._prices.currency,
            tuple(map(_machine_bill, machines)),
            tuple(self._quota_bills()),
            tuple(sorted(self._missed, key=lambda each: (-each.hours, each.pod))),
        )

    def _quota_bills(self) -> Iterable[QuotaBill]:
        for (queue, state), (hours, amounts) in sorted(self._held.items()):
            if hours > 0:
                shown = {name: amount / (1000 if name == "cpu" else 1) for name, amount in sorted(amounts.items())}
                yield QuotaBill(queue, state, hours, shown, self._prices.resources.cost(amounts))


def _state(pod: PodFacts, is_promised: bool) -> str | None:
    """None if the pod holds nothing."""
    if not pod.node and not is_promised:
        return None
    if pod.is_terminating:
        return TERMINATING
    if pod.foreign_gates:
        return FOREIGN_GATE
    return PLACED if pod.node else UNPLACED


def _add_machine(totals: BillTotals, machine: _Machine, seconds_: float, idle_s: float) -> BillTotals:
    cost = seconds_ / _HOUR_S * machine.price
    is_gone_unused = machine.until_s is not None and machine.is_bought and not machine.was_used
    is_wasted = is_gone_unused and bool(machine.bought_for)
    is_unused = is_gone_unused and not is_wasted
    return msgspec.structs.replace(
        totals,
        machine_hours=totals.machine_hours + seconds_ / _HOUR_S,
        machine_cost=totals.machine_cost + cost,
        idle_hours=totals.idle_hours + idle_s / _HOUR_S,
        idle_cost=totals.idle_cost + idle_s / _HOUR_S * machine.price,
        wasted=totals.wasted + is_wasted,
        wasted_cost=totals.wasted_cost + cost * is_wasted,
        unused=totals.unused + is_unused,
        unused_cost=totals.unused_cost + cost * is_unused,
    )


def _add_amounts(total: dict[str, float], amounts: Mapping[str, float], hours: float) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0.0) + amount * hours


def _machine_bill(machine: _Machine) -> MachineBill:
    hours = ((machine.until_s or machine.since_s) - machine.since_s) / _HOUR_S
    idle = machine.idle_s / _HOUR_S
    return MachineBill(
        name=machine.name,
        type=machine.type,
        hours=hours,
        idle_hours=idle,
        cost=hours * machine.price,
        idle_cost=idle * machine.price,
        never_used=machine.is_bought and not machine.was_used,
        bought_for=machine.bought_for if not machine.was_used else (),
    )
