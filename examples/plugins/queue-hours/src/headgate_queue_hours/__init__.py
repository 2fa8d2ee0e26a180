"""QueueHours: a queue plugin for Headgate. A queue lets pods in at some hours of the day, and so many at a time.

The arguments name queues: ``queues: {night: {from: "22:00", to: "06:00", maxPods: 2}}``. Times are in UTC. Pods that
were let in run on when the queue closes. Queues that are not named are always open. A held pod costs nothing: the
plugin tells Headgate when to ask again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from headgate.scheduling.framework import DELETE, QUEUE_RESERVATION, PodInfo, QueueUnit, Rejection, on

DAY_S = 24 * 60 * 60


class Hours(NamedTuple):
    """``from_s`` and ``to_s``: seconds after midnight. ``max_pods``: how many pods may hold capacity of the queue."""

    text: str
    from_s: int
    to_s: int
    max_pods: int | None

    def closed_for_s(self, now_s: float) -> float:
        """The seconds until the queue opens; 0 while it is open."""
        since_opening_s = (now_s - self.from_s) % DAY_S
        open_for_s = (self.to_s - self.from_s) % DAY_S
        return 0.0 if since_opening_s < open_for_s else DAY_S - since_opening_s


class QueueHours:
    name = "QueueHours"

    def __init__(self, args: Mapping[str, Any]) -> None:
        """``headgate config check`` shows the user any exception raised here."""
        unknown = sorted(args.keys() - {"queues"})
        if unknown:
            raise ValueError(f"unknown argument {unknown[0]!r}; there is only 'queues'")
        self._hours = {queue: read_hours(queue, given) for queue, given in args.get("queues", {}).items()}
        self._pods: dict[str, set[str]] = {queue: set() for queue in self._hours}

    def admit_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None:
        hours = self._hours.get(unit.queue)
        wait_s = 0.0 if hours is None else hours.closed_for_s(now_s)
        if hours is None or not wait_s:
            return None
        return Rejection(self.name, f"queue {unit.queue} is open {hours.text}", expires=False, look_again_s=wait_s)

    def reserve_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None:
        hours, pods = self._hours.get(unit.queue), self._pods.get(unit.queue, set())
        limit = None if hours is None or unit.is_restored else hours.max_pods
        if limit is not None and len(pods) + len(unit.pods) > limit:
            reason = f"{len(pods)} pods of queue {unit.queue} were let in, and {limit} may be"
            # Only the end of another pod can help, so Headgate need not ask again after some time.
            return Rejection(self.name, reason, on(QUEUE_RESERVATION, DELETE), expires=False)
        pods.update(pod.uid for pod in unit.pods)
        return None

    def release_pod(self, pod: PodInfo, queue: str, now_s: float, /) -> None:
        self._pods.get(queue, set()).discard(pod.uid)


def read_hours(queue: str, given: Mapping[str, Any]) -> Hours:
    start, end = (read_time(f"{queue}.{field}", given.get(field)) for field in ("from", "to"))
    limit = given.get("maxPods")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise ValueError(f"{queue}.maxPods: must be a whole number above 0, not {limit!r}")
    return Hours(f"from {given['from']} to {given['to']} UTC", start, end, limit)


def read_time(field: str, text: Any) -> int:
    found = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)", text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"{field}: must be a time such as '22:00', not {text!r}")
    return (int(found[1]) * 60 + int(found[2])) * 60
