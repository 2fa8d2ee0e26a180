"""Sort keys of the queueSort plugin, made comparable, so that the heap never fails.

Keys of all pods are compared, and Python raises when it compares a number with a text. Each element of a key is
therefore tagged with its type: numbers sort before texts, texts before bytes, bytes before tuples. One key cannot break
the order of the others. A pod whose key is no tuple of these types, or whose key function raises, is held with the
plugin's name (``scheduling_queue.py``) and sorts behind all others. The keys of units in queues are made comparable in
the same way (``scheduling/gates/queue_plugins.py``).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from headgate.scheduling.cache.pod import PodLike
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.interface import ErrorRejection, QueueSortPlugin
from headgate.scheduling.framework.plugin_failures import PluginFailures
from headgate.scheduling.framework.result_checks import (
    InvalidPluginResult,
    error_with_type,
    invalid_result,
    is_built_in,
)

_MAX_DEPTH: Final = 8


class QueueSortKeys:
    def __init__(self, sort: QueueSortPlugin, failures: PluginFailures | None = None) -> None:
        self._sort = sort
        self._failures = PluginFailures() if failures is None else failures
        self._is_checked = not is_built_in(sort)

    def key(self, pod: PodLike, since_s: float) -> tuple[Any, ...]:
        if not self._is_checked:
            return self._sort.order_key(pod, since_s)
        found = self._checked_key(pod, since_s)
        return (1, ()) if isinstance(found, ErrorRejection) else (0, found)

    def failure(self, pod: PodLike, since_s: float) -> ErrorRejection | None:
        """Why the pod has no valid key; None if it has one."""
        found = self._checked_key(pod, since_s) if self._is_checked else None
        return found if isinstance(found, ErrorRejection) else None

    def _checked_key(self, pod: PodLike, since_s: float) -> tuple[Any, ...] | ErrorRejection:
        try:
            found = self._sort.order_key(pod, since_s)
            return comparable_key(found)
        except BaseException as error:
            self._failures.failed(self._sort, "order_key", error, _pod_text(pod))
            return ErrorRejection(self._sort.name, f"order_key: {error_with_type(error)}", cluster_events.own_update())


def _pod_text(pod: PodLike | None) -> str:
    return "" if pod is None else f"pod {pod.namespace}/{pod.name}"


def comparable_key(key: Any) -> tuple[Any, ...]:
    """The key of a plugin with its elements tagged. Raises ``InvalidPluginResult`` for an invalid key."""
    if not isinstance(key, tuple):
        raise invalid_result(key, "a tuple")
    return _comparable(key)


def _comparable(key: tuple[Any, ...], depth: int = 0) -> tuple[Any, ...]:
    if depth > _MAX_DEPTH:
        raise InvalidPluginResult(f"returned a key with tuples inside each other, more than {_MAX_DEPTH} deep")
    return tuple(_element(each, depth) for each in key)


def _element(element: Any, depth: int) -> tuple[int, Any]:
    """The rank of its type, and its value as a built-in type of Python, whose comparison never raises. The comparison
    of two arrays, of dates with and without a time zone, or of other objects may raise while the heap is being changed.
    """
    value = element.item() if isinstance(element, np.integer | np.floating) else element
    if isinstance(value, float):
        if math.isnan(value):
            raise InvalidPluginResult("returned a key with NaN")
        return 0, float.__pos__(value)
    if isinstance(value, int):
        return 0, int.__pos__(value)
    if isinstance(value, str):
        return 1, str.__str__(value)
    if isinstance(value, bytes):
        return 2, bytes.__getitem__(value, slice(None))
    if type(value) is tuple:
        return 3, _comparable(value, depth + 1)
    raise InvalidPluginResult(
        f"returned a key with an element of type {type(element).__name__}: must be a number or a text"
    )
