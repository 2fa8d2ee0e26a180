"""Order keys of the queueSort plugin, such that a heap of them never breaks.

Keys of all pods are compared with each other, and Python compares a number with a text by raising. So each element of a
key counts with its kind: numbers come before texts, texts before bytes, bytes before tuples. No key makes another one
wrong. A pod whose key is no tuple of these, or cannot be made, is held in the plugin's name (``queue.py``), and stands
behind all others wherever it has to be ordered meanwhile.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from headgate.scheduling import events
from headgate.scheduling.contract import Failed, QueueSort
from headgate.scheduling.plugin_answers import WrongAnswer, described, is_built_in, wrong
from headgate.scheduling.plugin_failures import PluginFailures
from headgate.scheduling.podlike import PodLike

_DEEPEST: Final = 8


class OrderKeys:
    def __init__(self, sort: QueueSort, failures: PluginFailures | None = None) -> None:
        self._sort = sort
        self._failures = PluginFailures() if failures is None else failures
        self._is_checked = not is_built_in(sort)

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
            return _comparable(found)
        except BaseException as broken:
            self._failures.failed(self._sort, "order_key", broken, _named(pod))
            return Failed(self._sort.name, f"order_key: {described(broken)}", events.own_update())


def _named(pod: PodLike | None) -> str:
    return "" if pod is None else f"pod {pod.namespace}/{pod.name}"


def _comparable(key: tuple[Any, ...], depth: int = 0) -> tuple[Any, ...]:
    if depth > _DEEPEST:
        raise WrongAnswer(f"returned a key with tuples inside each other, more than {_DEEPEST} deep")
    return tuple(_element(each, depth) for each in key)


def _element(element: Any, depth: int) -> tuple[int, Any]:
    """Its kind, and its value as one of Python's own types, whose comparison is known to give an answer. Two arrays,
    two dates of which one has a zone, or objects with a comparison of their own may raise, in the middle of the queue.
    """
    value = element.item() if isinstance(element, np.integer | np.floating) else element
    if isinstance(value, float):
        if math.isnan(value):
            raise WrongAnswer("returned a key with NaN")
        return 0, float.__pos__(value)
    if isinstance(value, int):
        return 0, int.__pos__(value)
    if isinstance(value, str):
        return 1, str.__str__(value)
    if isinstance(value, bytes):
        return 2, bytes.__getitem__(value, slice(None))
    if type(value) is tuple:
        return 3, _comparable(value, depth + 1)
    raise WrongAnswer(f"returned a key with an element of type {type(element).__name__}: must be a number or a text")
