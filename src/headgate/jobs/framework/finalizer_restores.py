"""When the finalizer ``resource-in-use`` may be added again to a Workload that has lost it.

An uninstallation removes it from all Workloads, and any client with rights on Workloads may do so. It is added at once
for the first time. If the Workload loses it again, each further write waits longer, so that two programs do not
overwrite each other in a loop. The plans of jobs and of pods ask before they write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.kube.backoff import ExponentialBackoff

Object = dict[str, Any]
_BACKOFF: Final = ExponentialBackoff(2.0, 3600.0, 3.0)


class FinalizerRestores:
    """The Workloads to which the finalizer was added, by uid, with the number of writes and the time of the next."""

    def __init__(self) -> None:
        self._restores: Final[dict[str, tuple[int, float]]] = {}
        self._due_s: Final[dict[str, float]] = {}

    def may_restore(self, workload: Object, now_s: float) -> bool:
        """Whether a write may be sent now. It counts as sent, whatever its outcome."""
        uid = workload["metadata"]["uid"]
        count, next_s = self._restores.get(uid, (0, now_s))
        if now_s < next_s:
            self._due_s[uid] = next_s
            return False
        self._restores[uid] = count + 1, now_s + _BACKOFF.delay_s(count + 1)
        return True

    def take_due_s(self, workloads: Iterable[Object]) -> float | None:
        """When to plan again because a write was not allowed yet; None if none was asked for since the last call."""
        due = [self._due_s.pop(each["metadata"]["uid"], None) for each in workloads]
        return min((each for each in due if each is not None), default=None)

    def forget(self, uid: str) -> None:
        self._restores.pop(uid, None)
        self._due_s.pop(uid, None)
