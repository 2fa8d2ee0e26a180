"""What preemption found out about each node for one kind of pod, kept until that node changes.

Thousands of pods of one shape that fit nowhere are one search, and one node more after each that made room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

import msgspec

from headgate.scheduling.budgets import Budgets
from headgate.scheduling.contract import Ground, NoWay, Unplaced
from headgate.scheduling.plugins.default_preemption_victims import Hopeless, Victims, select_victims
from headgate.scheduling.pod import Pod
from headgate.scheduling.victim_rules import VictimRule

_KINDS: Final = 16


class _Found(msgspec.Struct, frozen=True):
    stamp: Hashable
    budgets: int
    answer: Victims | Hopeless


class Memory:
    """Of one kind of pod: the same questions to nodes, the same priority, the same rule for victims."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._by_row: dict[int, _Found] = {}
        self._last: tuple[Unplaced, Hashable, NoWay] | None = None

    def look(self, pod: Pod, row: int, ground: Ground, stamp: Hashable, rule: VictimRule) -> Victims | Hopeless:
        """As long as the stamp is the same, so is what is there."""
        known = self._by_row.get(row)
        if known is not None and known.stamp == stamp:
            if known.budgets == self._budgets.version:
                return known.answer
            found = known.answer if self._still_holds(known.answer) else self._search(pod, row, ground, rule)
        else:
            found = self._search(pod, row, ground, rule)
        self._by_row[row] = _Found(stamp, self._budgets.version, found)
        return found

    def _still_holds(self, answer: Victims | Hopeless) -> bool:
        """Budgets move with every eviction, and rarely matter: only what they say about these pods counts."""
        return not isinstance(answer, Victims) or self._budgets.overdrawn(answer.lower) == answer.overdrawn

    def _search(self, pod: Pod, row: int, ground: Ground, rule: VictimRule) -> Victims | Hopeless:
        eligible = rule.eligible(pod, tuple(ground.matrix.pods_on(row).values()))
        with ground.trial(pod, row) as trial:
            return select_victims(eligible, trial, self._budgets)

    def recall(self, unplaced: Unplaced, ground: Ground) -> NoWay | None:
        """What was said to the last pod of this kind, if nothing has changed since."""
        if self._last is None or self._last[0] is not unplaced or self._last[1] != ground.epoch:
            return None
        return self._last[2]

    def keep(self, unplaced: Unplaced, ground: Ground, answer: NoWay) -> None:
        self._last = unplaced, ground.epoch, answer


class Memories:
    """The kinds of pod that were asked about last."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._kinds: OrderedDict[Hashable, Memory] = OrderedDict()

    def of(self, kind: Hashable) -> Memory:
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = Memory(self._budgets)
            if len(self._kinds) > _KINDS:
                self._kinds.popitem(last=False)
        else:
            self._kinds.move_to_end(kind)
        return found
