"""Room in a full queue: a pod that waits for its queue makes others go, if then it would have both, quota and a node.

The queues say who contends, what is lacking where, and in whose place it might come (``capacity/room.py``). Here a
node is looked for on which that helps: one with room already, or one where the victims are. Victims are told to go as
by any preemption; what they held is the queue's again when they have been told, and not before, so that no more is ever
promised than there is. The node is promised to the pod meanwhile: to autoscalers it is not a shortage. Before any pod
has to go, promises without a node are taken back (``retracting.py``); a group may ask for that, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from headgate.capacity.names import OPT_IN
from headgate.capacity.queues import Queues, Room
from headgate.scheduling import telling
from headgate.scheduling.bindings import Step
from headgate.scheduling.cluster import Cluster
from headgate.scheduling.contract import Nominated, Placement, Reason, Trial
from headgate.scheduling.cycle import Cycle
from headgate.scheduling.plugins.default_preemption_choice import choose
from headgate.scheduling.plugins.default_preemption_victims import Victims, select_victims
from headgate.scheduling.pod import Pod
from headgate.scheduling.preempting import Preempting
from headgate.scheduling.queue import SchedulingQueue
from headgate.scheduling.retracting import Retracting

_LACKING: Final = (Reason("its queue would still be full"),)


class Contending:
    def __init__(
        self,
        queues: Queues,
        queue: SchedulingQueue[Pod],
        cluster: Cluster,
        cycles: Mapping[str, Cycle],
        conditions: telling.Conditions,
        preempting: Preempting,
        retracting: Retracting,
    ) -> None:
        self._queues = queues
        self._queue = queue
        self._cluster = cluster
        self._cycles = cycles
        self._conditions = conditions
        self._preempting = preempting
        self._retracting = retracting

    def step(self) -> Iterator[Step]:
        for uid in self._queues.starving():
            queued = self._queue.get(uid)
            if queued is None or self._is_under_way(uid):
                continue
            room = self._queues.make_room(uid, may_evict=queued.pod.preemption_policy != "Never")
            # A group waits until there is room: on which nodes it would be placed whole cannot be told beforehand.
            found = self._find(queued.pod, room) if room is not None and room.victims else None
            if room is None or (room.victims and found is None):
                continue
            if room.promises:
                if found is not None or self._would_keep(queued.pod, room):
                    yield from self._retracting.begin(uid, room.promises)
            elif found is not None:
                yield from self._make_go(queued.pod, found)

    def retracted(self, uid: str) -> Iterator[Step]:
        """All promises are taken back that were to be for this pod: pods that have to go as well are told now."""
        queued = self._queue.get(uid)
        if queued is not None and not self._is_preempting(uid):
            may_evict = queued.pod.preemption_policy != "Never"
            room = self._queues.make_room(uid, may_evict=may_evict, freed=self._retracting.taken_off(uid))
            found = self._find(queued.pod, room) if room is not None and room.victims and not room.promises else None
            if found is not None:
                yield from self._make_go(queued.pod, found)
        if uid not in self._cluster.preemptions:
            self._retracting.release(uid)

    def _would_keep(self, pod: Pod, room: Room) -> bool:
        """A pod that did not opt in keeps its share only if it gets a node: without one it would give back what was
        taken from others for it, again and again."""
        if pod.annotations.get(OPT_IN) == "true":
            return True
        is_alone = room.for_uids == (pod.uid,)
        return is_alone and isinstance(self._cycles[pod.scheduler_name].decide(pod), Placement)

    def _make_go(self, pod: Pod, found: Nominated) -> Iterator[Step]:
        self._queue.nominate(pod, found.node_name)
        yield from self._conditions.promised(pod, found.node_name)
        yield from self._preempting.begin(pod, found)

    def _is_under_way(self, uid: str) -> bool:
        return self._retracting.is_under_way(uid) or self._is_preempting(uid)

    def _is_preempting(self, uid: str) -> bool:
        """Victims are being told to go for it, or were told and have not gone."""
        under_way, matrix = self._cluster.preemptions, self._cluster.matrix
        return uid in under_way or any(matrix.home(each) is not None for each in under_way.told(uid))

    def _find(self, pod: Pod, room: Room) -> Nominated | None:
        """Where the pod would fit if some of those went that may."""
        if room.for_uids != (pod.uid,):
            return None
        cycle, budgets, matrix = self._cycles[pod.scheduler_name], self._cluster.budgets, self._cluster.matrix
        by_row: dict[int, list[Pod]] = {}
        for uid in room.rivals:
            home = matrix.home(uid)
            if home is not None:
                by_row.setdefault(home, []).append(matrix.pods_on(home)[uid])
        outcome = cycle.decide(pod)
        if isinstance(outcome, Placement):
            rivals = {each.uid: each for there in by_row.values() for each in there}
            victims = tuple(rivals[uid] for uid in room.victims if uid in rivals)
            return Nominated(outcome.node_name, victims) if len(victims) == len(room.victims) else None
        candidates: dict[str, Victims] = {}
        for row, there in sorted(by_row.items()):
            name = matrix.node_of(there[0].uid)
            if name in outcome.resolvable:
                try:
                    with cycle.trial(pod, row) as trial:
                        found = select_victims(there, _Quota(room, trial), budgets)
                except BaseException:
                    return None  # a plugin failed: it fails the pod's own attempt as well, which says so
                if isinstance(found, Victims) and found.pods:
                    candidates[name] = found
        if not candidates:
            return None
        chosen = choose(candidates)
        return Nominated(chosen, candidates[chosen].pods)


class _Quota:
    """A trial in which the queue has to have room, too."""

    def __init__(self, room: Room, trial: Trial) -> None:
        self._rivals = room.rivals
        self._missing = dict(room.missing)
        self._trial = trial

    def __enter__(self) -> _Quota:
        return self

    def __exit__(self, *raised: object) -> None:
        """The node is its owner's to bring back to what it was."""

    def put(self, pod: Pod, /) -> None:
        self._count(pod, +1)
        self._trial.put(pod)

    def take(self, pod: Pod, /) -> None:
        self._count(pod, -1)
        self._trial.take(pod)

    def reasons(self) -> tuple[Reason, ...]:
        is_full = any(amount > 0 for amount in self._missing.values())
        return _LACKING if is_full else self._trial.reasons()

    def _count(self, pod: Pod, sign: int) -> None:
        path = self._rivals[pod.uid]
        for queue, resource in self._missing:
            if queue in path:
                self._missing[queue, resource] += sign * pod.shape.requests.get(resource, 0)
