"""Effects of the quota engine (``quota/engine.py``) that are not written to the API yet, by workload.

The condition that says why a workload is pending changes often, and no component acts on it, so its writes are delayed:
only the last one is written, and none if the workload gets quota meanwhile. The condition of a preemptor that waits for
its victims is not delayed, because a restarted engine reads it. ``quota_controller.py`` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from headgate.quota import names
from headgate.quota.effects import Admit, Effect, EmitWorkloadEvent, SetCondition

STATUS_DELAY_S: Final = 0.5
_DELAYED_REASONS: Final = frozenset(
    (
        names.WAITING_FOR_QUOTA,
        names.EXCEEDS_MAX_QUOTA,
        names.NO_MATCHING_FLAVOR,
        names.FIRST_IN_LINE_PROTECTED,
    )
)


class PendingWrites:
    def __init__(self) -> None:
        self._effects: Final[dict[str, list[Effect]]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._effects

    def __bool__(self) -> bool:
        return bool(self._effects)

    def effects_of(self, key: str) -> Sequence[Effect]:
        return self._effects.get(key, ())

    def add(self, effects: Iterable[Effect]) -> dict[str, float]:
        """Adds effects. Returns, for each workload that has writes now, in how many seconds they are due."""
        due: dict[str, None] = {}
        for effect in effects:
            pending = self._effects.get(effect.key, [])
            if isinstance(effect, Admit) or (isinstance(effect, SetCondition) and may_be_delayed(effect)):
                pending = [each for each in pending if not may_be_delayed(each)]
            self._effects[effect.key] = [*pending, effect]
            due[effect.key] = None
        return {key: self.after_s(key) for key in due}

    def after_s(self, key: str) -> float:
        """How long the write may be delayed."""
        return STATUS_DELAY_S if all(map(may_be_delayed, self._effects[key])) else 0.0

    def forget(self, key: str, written: Sequence[Effect]) -> None:
        left = [effect for effect in self._effects.get(key, ()) if not any(effect is each for each in written)]
        if left:
            self._effects[key] = left
        else:
            self._effects.pop(key, None)

    def drop(self, key: str) -> None:
        self._effects.pop(key, None)


def may_be_delayed(effect: Effect) -> bool:
    match effect:
        case SetCondition(_, _, names.QUOTA_RESERVED, False, reason) | EmitWorkloadEvent(_, _, _, reason):
            return reason in _DELAYED_REASONS
    return False
