"""Workloads that wait for terminating pods, against a reference that recounts everything after every event.

Random queues in cohorts; workloads are admitted, evicted and removed; pods start, terminate, become overdue or are
gone; queues change their cohort and quota. The reference determines which workloads start and which wait. Each starts
once, and in the end none waits.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.quota.api.cluster_queue import ClusterQueue, read_cluster_queue
from headgate.quota.api.quota_reservation import QuotaHolder, QuotaPod
from headgate.quota.api.resource_groups import Cohort, FlavorResource, Usage
from headgate.quota.cache.occupancy import Occupancy
from headgate.quota.cache.quota_ledger import QuotaLedger
from headgate.quota.cache.quota_tree import QuotaTree
from kueue_builders import a_cluster_queue

FR = ("default", "cpu")
QUEUES = ("a", "b", "c")
SKEW_S = 10.0
LATE_S = 3.0


class Slow:
    """The rules, written down once more: no index, no memory but facts."""

    def __init__(self) -> None:
        self.queues: dict[str, ClusterQueue] = {}
        self.holders: dict[str, QuotaHolder] = {}
        self.pods: dict[str, QuotaPod] = {}
        self.released: dict[str, float] = {}  # pods not known to terminate: until when they count
        self.now_s = 0.0

    def counted(self) -> list[QuotaPod]:
        return [pod for pod in self.pods.values() if self._counts(pod)]

    def _counts(self, pod: QuotaPod) -> bool:
        covering = (
            each
            for each in self.holders.values()
            if (each.uid, each.reserved_s) == (pod.workload, pod.reserved_s) and not each.is_waiting
        )
        if any(covering):
            return False
        until_s = self.released.get(pod.uid) if pod.until_s is None else pod.until_s
        return until_s is not None and until_s > self.now_s

    def waits(self, holder: QuotaHolder) -> bool:
        tree = QuotaTree()
        for queue in self.queues.values():
            tree.place_queue(queue.name, queue.cohort, queue.quotas)
        leaving = self.counted()
        shares = [(each.queue, each.usage) for each in self.holders.values() if not each.is_waiting]
        for queue_name, usage in (*shares, *((pod.queue, pod.usage) for pod in leaving)):
            node = tree.queue(queue_name)
            assert node is not None
            tree.add(node, usage)
        node = tree.queue(holder.queue)
        assert node is not None
        mine = [pod for pod in leaving if self._root(pod.queue) == self._root(holder.queue)]
        first_s = min((pod.began_s or 0.0 for pod in mine), default=float("inf"))
        return holder.usage[FR] > node.available(FR) and first_s <= holder.reserved_s + SKEW_S

    def _root(self, queue: str) -> str:
        return self.queues[queue].cohort or f"/{queue}"

    def start(self) -> list[str]:
        """In the order of reservations, again and again, until nothing starts."""
        started: list[str] = []
        tried = True
        while tried:
            tried = False
            line = sorted(
                (each for each in self.holders.values() if each.is_waiting and not each.is_evicted),
                key=lambda each: (each.reserved_s, each.key),
            )
            for each in line:
                if not self.waits(each):
                    self.holders[each.key] = msgspec.structs.replace(each, is_waiting=False)
                    started.append(each.key)
                    tried = True
        return started


class Pair:
    def __init__(self) -> None:
        self.slow = Slow()
        self.book = QuotaLedger(lambda local_queue: local_queue.removeprefix("ns/"))
        self.numbers = 0
        for name in QUEUES:
            self.place(name, "all" if name != "c" else "", 4)
        self.book.place_cohort(Cohort("all"))

    @property
    def now_s(self) -> float:
        return self.slow.now_s

    def place(self, name: str, cohort: str, cpu: int) -> None:
        spec = {"cohortName": cohort} if cohort else {}
        queue = read_cluster_queue(a_cluster_queue(name, {"default": {"cpu": cpu}}, **spec))
        assert isinstance(queue, ClusterQueue)
        self.slow.queues[name] = queue
        self.book.place_queue(queue)

    def admit(self, queue: str, cpu: int) -> None:
        """As the cycle does: whether it waits is decided at once."""
        self.book.occupancy.expire(self.now_s)
        self.numbers += 1
        key = f"w-{self.numbers:03}"
        usage = {FR: cpu * 1000}
        holder = QuotaHolder(key, f"uid-{key}", queue, usage, 0, self.now_s, self.now_s)
        leaving = self.book.occupancy.terminating_ahead(queue, usage, self.now_s)
        assert (leaving is not None) == self.slow.waits(holder)
        self.put(msgspec.structs.replace(holder, is_waiting=leaving is not None))

    def put(self, holder: QuotaHolder) -> None:
        self.slow.holders[holder.key] = holder
        self.book.put(holder)

    def run_pods(self, key: str) -> None:
        holder = self.slow.holders[key]
        for number in range(holder.usage[FR] // 1000):
            uid = f"{key}-{number}"
            place = f"ns/{holder.queue}"
            self.show(QuotaPod(uid, f"ns/{uid}", holder.uid, holder.reserved_s, place, holder.queue, {FR: 1000}))

    def show(self, pod: QuotaPod) -> None:
        self.slow.pods[pod.uid] = pod
        self.slow.released.pop(pod.uid, None)
        self.book.occupancy.pod_applied(pod)

    def terminate(self, uid: str, grace_s: int) -> None:
        pod = self.slow.pods[uid]
        if pod.until_s is None:
            self.show(msgspec.structs.replace(pod, began_s=self.now_s, until_s=self.now_s + grace_s + LATE_S))

    def leave(self, uid: str) -> None:
        del self.slow.pods[uid]
        self.slow.released.pop(uid, None)
        self.book.occupancy.pod_removed(uid)

    def release(self, key: str, keeps_pods: bool) -> None:
        holder = self.slow.holders.pop(key)
        if keeps_pods and not holder.is_waiting:
            for pod in self.slow.pods.values():
                if pod.workload == holder.uid and pod.until_s is None:
                    self.slow.released[pod.uid] = self.now_s + LATE_S
        self.book.remove(key, keeps_pods=keeps_pods)
        self.book.occupancy.expire(self.now_s)

    def look(self) -> None:
        self.book.occupancy.expire(self.now_s)
        found = [each.key for each, _ in self.book.occupancy.ready()]
        for holder in [self.slow.holders[key] for key in found]:
            self.book.put(msgspec.structs.replace(holder, is_waiting=False))
        assert sorted(found) == sorted(self.slow.start())
        assert len(found) == len(set(found))
        node = {name: self.book.occupancy.tree.queue(name) for name in QUEUES}
        for name in QUEUES:
            mine = [each.usage[FR] for each in self.slow.counted() if each.queue == name]
            started = (each for each in self.slow.holders.values() if not each.is_waiting)
            mine += [each.usage[FR] for each in started if each.queue == name]
            found_node = node[name]
            assert found_node is not None
            assert found_node.usage.get(FR, 0) == sum(mine)


def _act(pair: Pair, draw: Any) -> None:
    holders, pods = sorted(pair.slow.holders), sorted(pair.slow.pods)
    acts = ["admit", "pass", "place", "look up"]
    acts += ["run", "release", "preempt", "preempt", "preempt", "evict"] if holders else []
    acts += ["terminate", "leave", "leave"] if pods else []
    match draw(st.sampled_from(acts)):
        case "admit":
            pair.admit(draw(st.sampled_from(QUEUES)), draw(st.integers(1, 3)))
        case "pass":
            pair.slow.now_s += draw(st.sampled_from((1.0, 5.0, 30.0)))
        case "place":
            cohort = draw(st.sampled_from(("", "all")))
            pair.place(draw(st.sampled_from(QUEUES)), cohort, draw(st.integers(0, 8)))
        case "run":
            key = draw(st.sampled_from(holders))
            if not pair.slow.holders[key].is_waiting and f"{key}-0" not in pair.slow.pods:
                pair.run_pods(key)
        case "release":
            pair.release(draw(st.sampled_from(holders)), draw(st.booleans()))
        case "preempt":
            key, grace_s = draw(st.sampled_from(holders)), draw(st.integers(0, 60))
            holder = pair.slow.holders[key]
            if not holder.is_waiting:
                if f"{key}-0" not in pair.slow.pods:
                    pair.run_pods(key)
                for uid in [uid for uid in sorted(pair.slow.pods) if pair.slow.pods[uid].workload == holder.uid]:
                    pair.terminate(uid, grace_s)
            pair.release(key, draw(st.booleans()))
            pair.admit(holder.queue, draw(st.integers(1, 3)))
        case "look up":
            pair.book.occupancy.local_queue_changed(f"ns/{draw(st.sampled_from(QUEUES))}")
        case "evict":
            holder = pair.slow.holders[draw(st.sampled_from(holders))]
            pair.put(msgspec.structs.replace(holder, is_evicted=True))
        case "terminate":
            pair.terminate(draw(st.sampled_from(pods)), draw(st.integers(0, 40)))
        case "leave":
            pair.leave(draw(st.sampled_from(pods)))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_the_started_workloads_equal_those_of_a_full_recount(data: st.DataObject) -> None:
    pair = Pair()
    for _ in range(data.draw(st.integers(5, 40))):
        for _ in range(data.draw(st.integers(1, 3))):
            _act(pair, data.draw)
        pair.look()
    for uid in sorted(pair.slow.pods):
        pair.terminate(uid, 1)
    pair.slow.now_s += 100.0
    pair.look()
    assert not [each for each in pair.slow.holders.values() if each.is_waiting and not each.is_evicted]


class Counting(Occupancy):
    """Counts how often quota is compared."""

    compared = 0

    def _find_shortage(self, queue: str, usage: Usage, reserved_s: float) -> list[FlavorResource]:
        self.compared += 1
        return super()._find_shortage(queue, usage, reserved_s)


def test_the_work_for_many_that_wait_grows_with_their_number() -> None:
    """Each victim that leaves starts one workload: how often quota is compared is counted, not timed."""
    small, large = _compared(100), _compared(400)
    assert large <= 4.2 * small, (small, large)


def _compared(count: int) -> int:
    pair = Pair()
    occupancy = pair.book.occupancy = Counting(lambda local_queue: "c")
    pair.place("c", "", count)
    usage = {FR: 1000}
    for number in range(count):
        uid = f"victim-{number}"
        occupancy.pod_applied(QuotaPod(uid, f"ns/{uid}", "gone", 0.0, "ns/c", "c", usage, 0.0, 1000.0))
    for number in range(count):
        is_waiting = occupancy.terminating_ahead("c", usage, 1.0) is not None
        assert is_waiting
        pair.book.put(QuotaHolder(f"w-{number:04}", f"uid-{number}", "c", usage, 0, 1.0, 1.0, is_waiting=is_waiting))
    assert not occupancy.ready()
    for number in range(count):
        occupancy.pod_removed(f"victim-{number}")
        assert len(occupancy.ready()) == 1
    return occupancy.compared
