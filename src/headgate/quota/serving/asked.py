"""What the engine asked for and is not written yet, by workload.

Why somebody waits is a remark: nobody acts on it, and in a busy queue it is another sentence a moment later. Remarks
wait for that moment; only the last one is written, and none if the workload got quota meanwhile. Whoever waits for
workloads that were told to go for it is no remark: who starts anew reads it. The writes are ``controller.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from headgate.quota import names
from headgate.quota.effects import Admit, Effect, Emit, SetCondition

REMARK_S: Final = 0.5
_REMARKS: Final = frozenset((names.WAITING_FOR_QUOTA, names.EXCEEDS_MAX_QUOTA, names.NO_MATCHING_FLAVOR))


class Asked:
    def __init__(self) -> None:
        self._effects: Final[dict[str, list[Effect]]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._effects

    def __bool__(self) -> bool:
        return bool(self._effects)

    def of(self, key: str) -> Sequence[Effect]:
        return self._effects.get(key, ())

    def add(self, asked: Iterable[Effect]) -> dict[str, float]:
        """Whose writes are due, and in how many seconds."""
        due: dict[str, None] = {}
        for effect in asked:
            waiting = self._effects.get(effect.key, [])
            if isinstance(effect, Admit) or (isinstance(effect, SetCondition) and is_remark(effect)):
                waiting = [each for each in waiting if not is_remark(each)]
            self._effects[effect.key] = [*waiting, effect]
            due[effect.key] = None
        return {key: self.after_s(key) for key in due}

    def after_s(self, key: str) -> float:
        """How long the write may wait."""
        return REMARK_S if all(map(is_remark, self._effects[key])) else 0.0

    def forget(self, key: str, written: Sequence[Effect]) -> None:
        left = [effect for effect in self._effects.get(key, ()) if not any(effect is each for each in written)]
        if left:
            self._effects[key] = left
        else:
            self._effects.pop(key, None)

    def drop(self, key: str) -> None:
        self._effects.pop(key, None)


def is_remark(effect: Effect) -> bool:
    match effect:
        case SetCondition(_, _, names.QUOTA_RESERVED, False, reason) | Emit(_, _, _, reason):
            return reason in _REMARKS
    return False
