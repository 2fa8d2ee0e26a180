"""The line of pods that may be tried: queue, then job, then pod, by what is in use at the very moment.

Only pods that hold a grant belong here. Who gets one is decided in ``admitting.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.capacity.groups import Gang
from headgate.capacity.lineup import Lineup
from headgate.capacity.order import Key, Order
from headgate.capacity.record import Record
from headgate.capacity.views import PlainViews
from headgate.waiting.heap import Heap

_ANY = ()


class Line:
    """``settle`` is called before each look, so that the order is that of the moment."""

    def __init__(
        self,
        order: Order,
        views: PlainViews,
        records: Callable[[str], Record | None],
        job_key: Callable[[Record], Key],
        settle: Callable[[], None],
    ) -> None:
        self._order = order
        self._lineup = Lineup(views, lambda unit: _ANY)
        self._record = records
        self._job_key = job_key
        self._settle = settle
        self._gangs: dict[tuple[str, str], Heap[str]] = {}
        self._places: dict[str, tuple[str, Gang | None]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, uid: str) -> bool:
        return uid in self._places

    def put(self, uid: str) -> None:
        self.discard(uid)
        record = self._record(uid)
        if record is None:
            return
        gang = record.gang
        # A gang stands in one queue, whatever its members say: that of the first of them here.
        place = self._place_of(gang) or record.place
        self._places[uid] = (place, gang)
        if gang is not None:
            self._gangs.setdefault(gang.key, Heap()).put(uid, self._order.task_key(record.task))
        self._lineup.put(place, uid if gang is None else gang.key, _ANY, self._job_key(record))

    def discard(self, uid: str) -> None:
        found = self._places.pop(uid, None)
        if found is None:
            return
        place, gang = found
        if gang is None:
            self._lineup.discard(place, uid, _ANY)
            return
        heap = self._gangs[gang.key]
        heap.discard(uid)
        if not heap:
            del self._gangs[gang.key]
            self._lineup.discard(place, gang.key, _ANY)

    def pop(self) -> str | None:
        """The next pod to try."""
        self._settle()
        first = self._lineup.first()
        if first is None:
            return None
        unit = first[1]
        if isinstance(unit, str):
            uid: str | None = unit
        else:
            head = self._gangs[unit].first()
            uid = None if head is None else head[1]
        if uid is not None:
            self.discard(uid)
        return uid

    def touch(self, queue: str) -> None:
        self._lineup.touch(queue)

    def rekey(self, gang: Gang) -> None:
        """What the gang holds changed."""
        heap = self._gangs.get(gang.key)
        head = None if heap is None else heap.first()
        record = None if head is None else self._record(head[1])
        if record is not None:
            self._lineup.put(self._places[record.task.uid][0], gang.key, _ANY, self._job_key(record))

    def _place_of(self, gang: Gang | None) -> str:
        heap = None if gang is None else self._gangs.get(gang.key)
        head = None if heap is None else heap.first()
        return "" if head is None else self._places[head[1]][0]
