"""The queues as a slow, obvious reference: every answer is computed anew from all objects. For ``test_capacity.py``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.capacity.api.queue import Queue
from headgate.capacity.api.task import TaskInfo
from headgate.kube.timestamps import parse_micro_time

Amounts = dict[str, int]
ROOT = "root"
PROMISED = ("reserved", "growing")
HOLDING = ("allocated", *PROMISED)


class Pod:
    """The known state of a pod, and the decisions about it."""

    def __init__(self, task: TaskInfo) -> None:
        self.task = task
        self.queue = ""
        self.promised_at = ""
        self.withdrawn: set[str] = set()
        self.promised: Mapping[str, int] = {}
        self.is_bound = self.is_placed = self.is_gone = self.is_evicted = self.is_resting = self.is_stamped = False
        self.is_sent = False  # the API shows the stamp, or may show it at any time
        self.is_being_revoked = False  # its promise counts until its stamp is removed
        self.put_off_s: float | None = None

    def hear(self, task: TaskInfo) -> None:
        if self.is_gone and not task.is_terminal_or_terminating:
            return
        self.task = task
        self.is_gone = task.is_terminal_or_terminating
        self.is_bound |= bool(task.node_name)
        if task.stamp is not None and not task.gates and task.stamp.at not in self.withdrawn:
            self.is_stamped, self.is_sent, self.put_off_s = True, True, None
            self.promise(task.stamp.queue, task.stamp.requests, task.stamp.at)
        elif self.promised_at and self.is_tentative() and self.asks_more():
            self.promised_at = ""

    def promise(self, queue: str, requests: Mapping[str, int], at: str) -> None:
        self.queue, self.promised, self.promised_at = queue, requests, at

    def take_back(self) -> None:
        self.withdrawn.add(self.promised_at)
        self.promised_at, self.is_stamped, self.is_sent, self.is_being_revoked = "", False, False, False

    def end_promise(self) -> bool:
        """The promise ends: at once, or when its stamp is removed if the API may show it. Returns whether it has
        ended."""
        if self.is_sent:
            self.is_being_revoked = True
            return False
        self.take_back()
        return True

    def is_tentative(self) -> bool:
        """Whether it did not opt in: it returns a grant if no node fits."""
        return not self.task.opted_in and not self.is_sent

    def asks_more(self) -> bool:
        return any(amount > self.promised.get(name, 0) for name, amount in self.task.requests.items())

    def missing(self) -> Amounts:
        """What it requests and was not promised."""
        left = {name: amount - self.promised.get(name, 0) for name, amount in self.task.requests.items()}
        return {name: amount for name, amount in left.items() if amount > 0}

    def holds(self) -> Mapping[str, int]:
        return self.promised if self.state() in PROMISED else self.task.requests

    def state(self) -> str:
        task = self.task
        if self.is_gone or self.is_evicted:
            return "done" if self.is_gone and task.succeeded else "gone"
        if self.is_bound or self.is_placed:
            return "allocated"
        if self.promised_at:
            return "growing" if self.asks_more() else "reserved"
        if any(gate != "scheduling.volcano.sh/queue-allocation-gate" for gate in task.gates):
            return "foreign"
        if task.gates and not task.opted_in:
            return "not asked"
        if self.put_off_s is not None:
            return "put off"
        return "resting" if self.is_resting else "waiting"


class Group:
    def __init__(self, queue: str, minimum: int, least: Amounts, created_s: float, phase: str) -> None:
        self.queue, self.minimum, self.least, self.created_s, self.phase = queue, minimum, least, created_s, phase


class SlowQueues:
    """Queues by name, groups by name and pods by uid."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.groups: dict[str, Group] = {}
        self.pods: dict[str, Pod] = {}
        self.let_in: set[str] = set()
        self.step_s = 0.0  # the time of the last admission step

    # The tree.

    def path(self, name: str) -> list[str]:
        """The queue and its ancestors, as far as they exist."""
        path = [name]
        while path[-1] != ROOT:
            queue = self.queues.get(path[-1])
            if queue is None:
                return path[:-1] or path
            if queue.parent in path:
                return path
            path.append(queue.parent)
        return path if len(path) == 1 or name in self.queues else [name]

    def limit(self, name: str, resource: str) -> int | None:
        own = self.queues[name].capability.get(resource) if name in self.queues else None
        path = self.path(name)
        above = self.limit(path[1], resource) if len(path) > 1 else None
        if above is None:
            return own
        kept = sum(each.guarantee.get(resource, 0) for each in self.queues.values() if each.parent == path[1])
        free = max(above - kept, 0) + self.queues[name].guarantee.get(resource, 0)
        return free if own is None else min(own, free)

    def takes(self, name: str) -> bool:
        queue = self.queues.get(name)
        is_leaf = not any(each.parent == name for each in self.queues.values())
        return queue is not None and name != ROOT and is_leaf and queue.state == "Open" and self.is_sound(name)

    def is_sound(self, name: str) -> bool:
        """Whether the queue is below the root, and no queue on its path has a larger capability than the next one that
        has one."""
        path = self.path(name)
        said = [self.queues[each].capability["cpu"] for each in path if "cpu" in self.spec(each).capability]
        return path[-1] == ROOT and said == sorted(said)

    def spec(self, name: str) -> Queue:
        return self.queues.get(name, Queue(name))

    # Usage.

    def place(self, pod: Pod) -> str:
        if pod.promised_at and (pod.is_stamped or not pod.is_bound):
            return pod.queue
        group = self.groups.get(pod.task.group)
        return (group.queue if group is not None else pod.task.queue) or "default"

    def held(self, name: str, state: str) -> Amounts:
        states = PROMISED if state == "reserved" else (state,)
        return add(
            pod.holds() for pod in self.pods.values() if pod.state() in states and name in self.path(self.place(pod))
        )

    def terminating(self, name: str) -> Amounts:
        return add(
            pod.task.requests
            for pod in self.pods.values()
            if pod.state() == "gone"
            and pod.is_bound
            and not pod.task.is_terminal
            and name in self.path(self.place(pod))
        )

    def members(self, group: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.task.group == group]

    def is_in(self, name: str) -> bool:
        group = self.groups[name]
        can_come = not group.least and self.takes(group.queue)
        need_not_ask = can_come or group.phase not in ("", "Pending") or self.ready(name) > 0
        return need_not_ask or name in self.let_in

    def group_held(self, name: str) -> Amounts:
        return add(pod.holds() for pod in self.members(name) if pod.state() in HOLDING)

    def inqueue(self, name: str) -> tuple[Amounts, Amounts]:
        """What enqueued groups may still use, and what they use beyond it."""
        left, beyond = [], []
        for key, group in self.groups.items():
            if self.is_in(key) and name in self.path(group.queue):
                held = self.group_held(key)
                foreign = add(pod.task.requests for pod in self.members(key) if pod.state() == "foreign")
                left.append({r: max(a - held.get(r, 0) - foreign.get(r, 0), 0) for r, a in group.least.items()})
                beyond.append({r: max(a - group.least.get(r, 0), 0) for r, a in held.items()})
        return add(left), add(beyond)

    # The next unit.

    def ready(self, group: str) -> int:
        return sum(pod.state() in (*HOLDING, "done") for pod in self.members(group))

    def unit(self, name: str) -> list[Pod]:
        """The pods of a group that are granted together next; none while a promise of the group is being revoked."""
        if any(pod.is_being_revoked for pod in self.members(name)):
            return []
        waiting = sorted((pod for pod in self.members(name) if pod.state() == "waiting"), key=task_key)
        lacks = max(self.groups[name].minimum - self.ready(name), 0)
        existing = sum(pod.state() != "gone" for pod in self.members(name))
        if len(waiting) < lacks or (lacks and existing < self.groups[name].minimum):
            return []
        return waiting[: lacks or 1]

    def job_key(self, name: str) -> tuple[Any, ...]:
        group, ready = self.groups[name], self.ready(name)
        priority = max((pod.task.priority for pod in self.members(name)), default=0)
        lacks = ready < group.minimum
        share = self.job_share(group.queue, self.group_held(name))
        return (not (ready and lacks), -priority, int(not lacks), share, group.created_s, "ns", name, "")

    def job_share(self, queue: str, held: Amounts) -> float:
        limits = {r: limit for r in ("cpu", "memory") if (limit := self.limit(queue, r)) is not None}
        if limits:
            return max(ratio(held.get(r, 0), limit) for r, limit in limits.items())
        return reference_share(held)

    def queue_keys(self, name: str) -> tuple[Any, ...]:
        return tuple(
            self.queue_key(each, self.used(each), self.without_node(each)) for each in self.path(name)[:-1][::-1]
        )

    def queue_key(self, name: str, used: Amounts, without_node: int) -> tuple[Any, ...]:
        """Queues of equal shares take turns: the one that uses less is first."""
        queue = self.spec(name)
        deserved = {}
        for r, a in queue.deserved.items():
            limit = self.limit(name, r)
            deserved[r] = a if limit is None else min(a, limit)
        for r, a in queue.guarantee.items():
            deserved[r] = max(deserved.get(r, 0), a)
        has = any(deserved.values())
        share = max(ratio(used.get(r, 0), a) for r, a in deserved.items()) if has else 1.0
        return (-queue.priority, share, not has, reference_share(used), without_node, queue.created_s, name)

    def used(self, name: str) -> Amounts:
        return add([self.held(name, "allocated"), self.held(name, "reserved")])

    def fits(self, queue: str, ask: Mapping[str, int], *, enqueue: bool = False) -> bool:
        for name in self.path(queue):
            used = self.used(name)
            left, beyond = self.inqueue(name) if enqueue else ({}, {})
            for resource, amount in ask.items():
                limit = self.limit(name, resource)
                taken = used.get(resource, 0) + left.get(resource, 0) - beyond.get(resource, 0)
                if limit is not None and taken + amount > limit:
                    return False
        return True

    def next_group(self) -> str | None:
        asking = [
            ((self.queue_keys(group.queue), self.job_key(name)), name)
            for name, group in self.groups.items()
            if not self.is_in(name) and self.takes(group.queue) and self.fits(group.queue, group.least, enqueue=True)
        ]
        return min(asking)[1] if asking else None

    def next_grant(self) -> tuple[str, tuple[str, ...]] | None:
        units: list[tuple[Any, str, tuple[str, ...], Amounts]] = []
        for uid, pod in self.pods.items():
            is_growing = pod.state() == "growing" and not pod.is_being_revoked
            if is_growing or (not pod.task.group and pod.state() == "waiting"):
                task = pod.task
                key = (True, -task.priority, 0, 0.0, task.created_s, task.namespace, task.name, uid)
                ask = pod.missing() if is_growing else dict(task.requests)
                # A pod without a group leaves capacity for enqueued groups.
                if is_growing or self.fits(self.place(pod), ask, enqueue=True):
                    units.append((key, self.place(pod), (uid,), ask))
        for name, group in self.groups.items():
            members = self.unit(name) if self.is_in(name) else []
            if members:
                uids = tuple(pod.task.uid for pod in members)
                units.append((self.job_key(name), group.queue, uids, add(pod.task.requests for pod in members)))
        fitting = [
            ((self.queue_keys(queue), key), queue, uids)
            for key, queue, uids, ask in units
            if self.takes(queue) and self.fits(queue, ask)
        ]
        closed: set[str] = set()
        for _, queue, uids in sorted(fitting):
            if self.fits_windows(queue, sum(not self.pods[uid].is_tentative() for uid in uids), closed):
                return queue, uids
        return None

    # The number of pods that may look for a node at once.

    def window(self, name: str) -> int | None:
        return self.spec(name).max_pods_without_node

    def without_node(self, name: str) -> int:
        return sum(
            pod.state() == "reserved" and not pod.is_tentative() and name in self.path(self.place(pod))
            for pod in self.pods.values()
        )

    def in_window(self, name: str) -> int:
        """The pods that count in the window of this queue: those that have looked for a node for less than its timeout,
        and those whose gate is not removed yet."""
        return sum(
            pod.state() == "reserved"
            and not pod.is_tentative()
            and name in self.path(self.place(pod))
            and not (pod.is_sent and self.step_s >= promised_s(pod) + self.spec(name).without_node_timeout_s)
            for pod in self.pods.values()
        )

    def fits_windows(self, queue: str, many: int, closed: set[str]) -> bool:
        """Whether no queue on the path has more pods that count than its window allows. After the first unit that
        does not fit, all later units of that queue wait. A unit that is larger than the window fits when no other pod
        of the queue waits for a node."""
        if not many:
            return True
        path = self.path(queue)
        if any(name in closed for name in path):
            return False
        for name in path:
            window, count = self.window(name), self.in_window(name)
            if window is not None and count and count + many > window:
                closed.add(name)
                return False
        return True

    def can_start(self, name: str) -> bool:
        """Whether the members that may be tried are enough for the missing part of the minimum on nodes."""
        if name not in self.groups:
            return False
        states = [pod.state() for pod in self.members(name)]
        return (
            sum(state in ("allocated", "done", "reserved", "resting") for state in states) >= self.groups[name].minimum
        )

    def end_short(self) -> list[str]:
        """If no unit fits, the promises of members of gangs below their minimum end; returns the pods whose promise has
        ended at once."""
        lost = []
        for pod in self.pods.values():
            name = pod.task.group
            if name and pod.state() in PROMISED and not pod.is_being_revoked:
                resting = sum(each.state() == "resting" for each in self.members(name))
                if name not in self.groups or self.ready(name) + resting < self.groups[name].minimum:
                    lost.append(pod)
        return [pod.task.uid for pod in lost if pod.end_promise()]

    def let_grow(self) -> list[str]:
        """If no unit fits, the oldest resized pod takes the promises of younger resized pods; returns the pods whose
        promise has ended at once. What is being revoked counts as free: that pod fits when the stamps are removed."""
        growing = sorted(
            (pod for pod in self.pods.values() if pod.state() == "growing" and not pod.is_being_revoked),
            key=promise_key,
        )
        for index, pod in enumerate(growing):
            younger, place = growing[index + 1 :], self.place(pod)
            if not self.takes(place) or self.short(place, pod.missing(), [*younger, *self.being_revoked()]):
                continue
            lost = []
            for each in reversed(younger):
                short = self.short(place, pod.missing(), self.being_revoked())
                if not short:
                    break
                path = self.path(self.place(each))
                if any(name in path and each.promised.get(resource) for name, resource in short) and each.end_promise():
                    lost.append(each.task.uid)
            return lost
        return []

    def being_revoked(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.is_being_revoked]

    def short(self, queue: str, ask: Amounts, others: list[Pod]) -> list[tuple[str, str]]:
        """The queues and resources without capacity for the ask, if the others had no promises."""
        kept = [each.promised_at for each in others]
        for each in others:
            each.promised_at = ""
        found = [
            (name, resource)
            for name in self.path(queue)
            for resource, amount in ask.items()
            if (limit := self.limit(name, resource)) is not None and self.used(name).get(resource, 0) + amount > limit
        ]
        for each, at in zip(others, kept, strict=True):
            each.promised_at = at
        return found

    def next_try(self, uids: Iterable[str]) -> str | None:
        """The pod with a grant that is tried next, by the usage on nodes."""
        keyed = []
        for uid in uids:
            pod, task = self.pods[uid], self.pods[uid].task
            queue = self.place(pod)
            path = self.path(queue)
            path = path if path[-1] == ROOT else [queue, ROOT]
            keys = tuple(self.queue_key(each, self.held(each, "allocated"), 0) for each in path[:-1][::-1])
            job = (True, -task.priority, 0, 0.0, task.created_s, task.namespace, task.name, uid)
            if task.group:
                job = self.placed_key(task.group)
            keyed.append(((keys, job, task_key(pod)), uid))
        return min(keyed)[1] if keyed else None

    def placed_key(self, name: str) -> tuple[Any, ...]:
        group = self.groups.get(name, Group("", 1, {}, 0.0, ""))
        members, ready = self.members(name), self.ready(name)
        on_nodes = sum(pod.state() in ("allocated", "done") for pod in members)
        queue = group.queue  # without its object a group has no queue and no limits
        held = add(pod.task.requests for pod in members if pod.state() == "allocated")
        share = self.job_share(queue, held)
        is_partial = 0 < ready < group.minimum
        priority = max(pod.task.priority for pod in members)
        return (not is_partial, -priority, int(on_nodes >= group.minimum), share, group.created_s, "ns", name, "")

    def lost(self) -> set[str]:
        """Promises that exceed a lowered limit."""
        over = {
            name: {
                r: limit - self.held(name, "allocated").get(r, 0)
                for r in ("cpu", "memory")
                if (limit := self.limit(name, r)) is not None
            }
            for name in {*self.queues, ROOT}
            if any(
                (limit := self.limit(name, r)) is not None and self.held(name, "reserved").get(r) and a > limit
                for r, a in self.used(name).items()
            )
        }
        promised = sorted((pod for pod in self.pods.values() if pod.state() in PROMISED), key=promise_key)
        units: list[list[Pod]] = []
        taken: set[str] = set()
        for pod in promised:
            if pod.task.uid in taken:
                continue
            together = [pod]
            if pod.task.group:
                mine = [each for each in promised if each.task.group == pod.task.group]
                minimum = self.groups[pod.task.group].minimum if pod.task.group in self.groups else 1
                settled = self.ready(pod.task.group) - len(mine)
                together = mine[: max(minimum - settled, 1)] if pod is mine[0] else [pod]
            taken.update(each.task.uid for each in together)
            units.append(together)
        lost: set[str] = set()
        for together in units:
            need = {name: add(pod.promised for pod in together if name in self.path(self.place(pod))) for name in over}
            if all(a <= over[name].get(r, a) for name, asked in need.items() for r, a in asked.items()):
                for name, asked in need.items():
                    over[name] = {r: room - asked.get(r, 0) for r, room in over[name].items()}
            else:
                lost.update(pod.task.uid for pod in together)
        return lost


def add(many: Iterable[Mapping[str, int]]) -> Amounts:
    total: Amounts = {}
    for amounts in many:
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + amount
    return {name: amount for name, amount in total.items() if amount}


def ratio(used: int, of: int) -> float:
    return used / of if of else float(bool(used))


def reference_share(used: Amounts) -> float:
    """By the amounts that weigh as much as one device."""
    return max((a / (1000 if r == "cpu" else 4 << 30) for r, a in used.items()), default=0.0)


def task_key(pod: Pod) -> tuple[Any, ...]:
    return (-pod.task.priority, pod.task.created_s, pod.task.name)


def promised_s(pod: Pod) -> float:
    micros = parse_micro_time(pod.promised_at)
    assert isinstance(micros, int)
    return micros / 1_000_000


def promise_key(pod: Pod) -> tuple[str, str, str]:
    return (pod.promised_at, pod.task.namespace, pod.task.name)
