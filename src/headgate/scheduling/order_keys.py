"""Order keys of the queueSort plugin, such that a heap of them never breaks.

Keys of all pods are compared with each other, and Python compares a number with a text by raising. So the kinds of the
elements of the first key count for all others; a pod whose key differs, is no tuple, or cannot be made, is held in the
plugin's name (``queue.py``), and stands behind all others wherever it has to be ordered meanwhile.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from headgate.scheduling import events
from headgate.scheduling.contract import Failed, QueueSort
from headgate.scheduling.plugin_answers import WrongAnswer, described, is_built_in, wrong
from headgate.scheduling.podlike import PodLike

Kinds = tuple[Any, ...]

_DEEPEST: Final = 8


class OrderKeys:
    def __init__(self, sort: QueueSort) -> None:
        self._sort = sort
        self._is_checked = not is_built_in(sort)
        self._kinds: Kinds = ()

    def key(self, pod: PodLike, since_s: float) -> tuple[Any, ...]:
        if not self._is_checked:
            return self._sort.order_key(pod, since_s)
        found = self._asked(pod, since_s)
        return (1, ()) if isinstance(found, Failed) else (0, found)

    def failure(self, pod: PodLike, since_s: float) -> Failed | None:
        """Why the pod has no key that others can be compared with."""
        found = self._asked(pod, since_s) if self._is_checked else None
        return found if isinstance(found, Failed) else None

    def _asked(self, pod: PodLike, since_s: float) -> tuple[Any, ...] | Failed:
        try:
            found = self._sort.order_key(pod, since_s)
            if not isinstance(found, tuple):
                raise wrong(found, "a tuple")
            kinds = _kinds(found)
            known, self._kinds = self._kinds, self._kinds or kinds
            if known and not _agree(known, kinds):
                raise WrongAnswer("returned a key whose elements have other types than those of earlier keys")
        except BaseException as broken:
            return Failed(self._sort.name, described(broken), events.own_update())
        return found


def _kinds(key: tuple[Any, ...], depth: int = 0) -> Kinds:
    if depth > _DEEPEST:
        raise WrongAnswer(f"returned a key with tuples inside each other, more than {_DEEPEST} deep")
    return tuple(_kind(each, depth) for each in key)


def _kind(element: Any, depth: int) -> Any:
    """Only of types whose comparison is known to give an answer. Two arrays, or two dates of which one has a zone,
    raise when they are compared, which would be in the middle of the queue."""
    if type(element) is tuple:
        return _kinds(element, depth + 1)
    if isinstance(element, float | np.floating) and math.isnan(element):
        raise WrongAnswer("returned a key with NaN")
    if isinstance(element, int | float | np.integer | np.floating):
        return float
    for plain in (str, bytes):
        if isinstance(element, plain):
            return plain
    raise WrongAnswer(f"returned a key with an element of type {type(element).__name__}: must be a number or a text")


def _agree(one: Kinds, other: Kinds) -> bool:
    """Tuples of different lengths can be compared: the shorter one comes first if it is the beginning of the other."""
    for left, right in zip(one, other, strict=False):
        both = isinstance(left, tuple), isinstance(right, tuple)
        if both == (True, True):
            if not _agree(left, right):
                return False
        elif left is not right:
            return False
    return True
