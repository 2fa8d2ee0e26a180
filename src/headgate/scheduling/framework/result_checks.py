"""Validates the results of plugins at each extension point before the scheduler uses them.

Plugins are external code and Python checks no types: an ``async def`` returns a coroutine, a missing ``return`` returns
``None``. Each function returns the result if its type and values match ``interface.py``, and raises
:class:`InvalidPluginResult` otherwise. The caller handles that like an exception of the plugin: an error of one pod and
one plugin. ``signature_checks.py`` checks earlier that a plugin has the required methods and parameters.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from headgate.kube.api_resources import APIResource
from headgate.scheduling.cache.label_columns import Mask
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.resource_columns import Ints
from headgate.scheduling.framework import effects
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.effects import ObjectPatch
from headgate.scheduling.framework.interface import (
    FilterReason,
    PermitWait,
    PostFilterNomination,
    PostFilterUnresolvable,
    PostFilterUnschedulable,
    PreBindPending,
    PreFilterRejection,
    PreFilterResult,
    Rejection,
    Skip,
    State,
)
from headgate.scheduling.framework.stable_hints import with_stable_hints
from headgate.waiting.queueing_hints import ClusterEventWithHint

MAX_SCORE: Final = 100
_MAX_INT64: Final = (1 << 63) - 1
_MAX_VALUE_LENGTH: Final = 80
_MAX_TEXT_LENGTH: Final = 4096
_BUILT_IN: Final = "headgate."
# Types that cannot be a plugin's state: results of other extension points, and texts and flags returned by mistake.
_NOT_STATE_TYPES: Final = (
    bool,
    str,
    type,
    Rejection,
    FilterReason,
    PermitWait,
    PostFilterNomination,
    PostFilterUnschedulable,
    PostFilterUnresolvable,
)


class InvalidPluginResult(TypeError):
    """The plugin returned a value that is invalid at its extension point."""


def is_built_in(plugin: object) -> bool:
    """Results of built-in plugins are not validated on hot paths: tests and type checks cover them."""
    plugin_class: Any = type(plugin)
    return _is_headgate_class(plugin_class)


@cache
def _is_headgate_class(plugin: Any) -> bool:
    """Cached, because it is called several times per pod. ``plugin`` is a class."""
    return str(plugin.__module__).startswith(_BUILT_IN)


def invalid_result(value: object, expected: str) -> InvalidPluginResult:
    """``expected``: what the extension point requires."""
    if inspect.iscoroutine(value):
        value.close()  # it never runs; unclosed it would warn when it is collected
        return InvalidPluginResult(f"returned a coroutine instead of {expected}: the method must not be async")
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return InvalidPluginResult(f"returned a generator instead of {expected}: the method must not yield")
    if value is None:
        return InvalidPluginResult(f"returned None instead of {expected}")
    return InvalidPluginResult(f"returned {_short_repr(value)} instead of {expected}")


def _short_repr(value: object) -> str:
    try:
        text = printable(repr(value), _MAX_VALUE_LENGTH)
    except BaseException:
        text = "a value that cannot be shown"
    return f"{text} ({type(value).__name__})"


def error_text(error: BaseException) -> str:
    """The text of an exception that a plugin raised, whatever its ``__str__`` does."""
    try:
        return printable(str(error), _MAX_TEXT_LENGTH)
    except BaseException:
        return "the text of the exception cannot be shown"


def error_with_type(error: BaseException) -> str:
    """The text of an exception with its type."""
    return f"{type(error).__name__}: {error_text(error)}"


def printable(text: str, max_length: int = _MAX_TEXT_LENGTH) -> str:
    """A text of a plugin in a form that is safe in API objects and on screens: of bounded length, valid UTF-8, and with
    escaped control characters."""
    text = str.__str__(text)  # the characters of a str subclass
    if len(text) > max_length:
        text = text[:max_length] + "..."
    if text.isprintable():
        return text
    text = text.encode("utf-8", "replace").decode()
    escaped = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return escaped if len(escaped) <= max_length + len("...") else escaped[:max_length] + "..."


# Rejections and their fields


def rejection(value: Any, plugin: str) -> Rejection | None:
    """The result of ``pre_enqueue`` or ``reserve``."""
    return None if value is None else _check_rejection(value, plugin, "None or a Rejection")


def permit_result(value: Any, plugin: str) -> Rejection | PermitWait | None:
    if isinstance(value, PermitWait):
        if not _is_seconds(value.timeout_s) or value.timeout_s < 0:
            raise InvalidPluginResult(
                f"timeout_s of PermitWait must be a finite number of seconds, not {_short_repr(value.timeout_s)}"
            )
        return value
    return None if value is None else _check_rejection(value, plugin, "None, a Rejection or a PermitWait")


def released_pods(value: Any) -> dict[str, Any]:
    """The result of ``released``, by pod uid. The caller checks each value with :func:`rejection`."""
    if not isinstance(value, Mapping):
        raise invalid_result(value, "a mapping from uids to None or a Rejection")
    return dict(value)


def _check_rejection(value: Any, plugin: str, expected: str) -> Rejection:
    if not isinstance(value, Rejection):
        raise invalid_result(value, expected)
    if value.plugin != plugin:
        raise InvalidPluginResult(f"plugin of Rejection must be the plugin's own name, not {_short_repr(value.plugin)}")
    reason = _text(value.reason, "reason of Rejection")
    events = events_to_register(value.wakers, "wakers of Rejection must be")
    for name in ("pending", "expires"):
        if not isinstance(getattr(value, name), bool):
            raise InvalidPluginResult(
                f"{name} of Rejection must be True or False, not {_short_repr(getattr(value, name))}"
            )
    again_s = value.look_again_s
    if again_s is not None and not (_is_seconds(again_s) and again_s > 0):
        raise InvalidPluginResult(
            f"look_again_s of Rejection must be None or a finite number of seconds above 0, not {_short_repr(again_s)}"
        )
    if reason is value.reason and events is value.wakers:
        return value
    return replace(value, reason=reason, wakers=events)


def events_to_register(value: Any, field: str = "") -> tuple[ClusterEventWithHint, ...]:
    """The ``wakers`` of a result, or the result of ``wakers(shape)``."""
    expected = "a tuple of ClusterEventWithHint"
    if not isinstance(value, tuple) or not all(isinstance(each, ClusterEventWithHint) for each in value):
        raise (
            InvalidPluginResult(f"{field} {expected}, not {_short_repr(value)}")
            if field
            else invalid_result(value, expected)
        )
    if not all(_is_topic(each.topic) and isinstance(each.own, bool) for each in value):
        raise invalid_result(value, "a tuple of ClusterEventWithHint that on, on_one and own_update made")
    guards = [each.guard for each in value if each.guard is not None]
    if not guards:
        return value
    if not all(_is_guard(each) for each in guards):
        raise invalid_result(value, "a tuple of ClusterEventWithHint whose guards have a method matches(event)")
    try:
        return with_stable_hints(value)
    except BaseException:
        raise invalid_result(value, "a tuple of ClusterEventWithHint with hashable guards") from None


def _is_guard(guard: Any) -> bool:
    try:
        return not isinstance(guard, type) and callable(getattr(guard, "matches", None))
    except BaseException:
        return False


def _is_topic(topic: Any) -> bool:
    return type(topic) is tuple and all(type(each) is str for each in topic)


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidPluginResult(f"{field} must be a text, not {_short_repr(value)}")
    return printable(value)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def seconds(value: Any, field: str) -> float:
    if not _is_seconds(value) or value < 0:
        raise InvalidPluginResult(f"{field} must be a finite number of seconds, not {_short_repr(value)}")
    return float(value)


# PreFilter and PreScore


def pre_filter_result(value: Any, *, has_filter: bool) -> Skip | PreFilterRejection | PreFilterResult | State:
    """Only a plugin with a filter may return a state."""
    if isinstance(value, PreFilterRejection):
        return PreFilterRejection(reason(value.reason, "reason of PreFilterRejection"))
    if isinstance(value, PreFilterResult):
        if not isinstance(value.names, frozenset | set) or not all(isinstance(each, str) for each in value.names):
            raise InvalidPluginResult(
                f"names of PreFilterResult must be a frozenset of texts, not {_short_repr(value.names)}"
            )
        return PreFilterResult(frozenset(value.names), value.state)
    return state(value, "None, SKIP, a PreFilterRejection, a PreFilterResult", has_reader=has_filter)


def state(value: Any, expected: str = "None, SKIP", *, has_reader: bool) -> Skip | State:
    """The state that ``pre_filter`` or ``pre_score`` returned."""
    if value is None or isinstance(value, Skip):
        return value
    if has_reader:
        expected = f"{expected} or a state of the plugin's own"
    is_deferred_call = inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)
    if is_deferred_call or isinstance(value, _NOT_STATE_TYPES) or not has_reader:
        raise invalid_result(value, expected)
    return value


def reason(value: Any, field: str) -> FilterReason:
    if not isinstance(value, FilterReason):
        raise InvalidPluginResult(f"{field} must be a FilterReason, not {_short_repr(value)}")
    text = _text(value.text, "text of FilterReason")
    if not isinstance(value.unresolvable, bool):
        raise InvalidPluginResult(
            f"unresolvable of FilterReason must be True or False, not {_short_repr(value.unresolvable)}"
        )
    return value if text is value.text else FilterReason(text, value.unresolvable)


def hashable(value: Any) -> Hashable:
    """The result of ``key``, ``stamp`` or ``scale``."""
    if inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise invalid_result(value, "a hashable value")
    return _check_hashable(value, "a hashable value")


def _check_hashable(value: Any, expected: str) -> Hashable:
    try:
        hash(value)
    except BaseException:
        raise invalid_result(value, expected) from None
    found: Hashable = value
    return found


# Filter and score


def filter_result(value: Any, count: int) -> Ints | None:
    """``count``: the number of rows that the plugin was called for."""
    return None if value is None else _integers(value, count, "None or")


def score_result(value: Any, count: int, final: Mask | None) -> Ints:
    """``final``: the rows whose scores are not normalized by the plugin afterwards; ``None`` if all are."""
    found = _integers(value, count, "")
    if final is not None and final.any():
        lowest, highest = int(found[final].min()), int(found[final].max())
        if lowest < 0 or highest > MAX_SCORE:
            raise InvalidPluginResult(
                f"returned scores from {lowest} to {highest}: they must be in the range 0 to {MAX_SCORE}"
            )
    return found


def _integers(value: Any, count: int, alternative: str) -> Ints:
    expected = f"{alternative} a numpy array of {count} integers".strip()
    if not isinstance(value, np.ndarray):
        raise invalid_result(value, expected)
    if value.dtype.kind not in "iu" or value.shape != (count,):
        shape = "x".join(map(str, value.shape)) or "no"
        raise InvalidPluginResult(f"returned an array of {shape} elements of type {value.dtype} instead of {expected}")
    if value.dtype.itemsize == np.int64().itemsize and value.dtype.kind == "u" and (value > _MAX_INT64).any():
        raise InvalidPluginResult(f"returned an array with numbers above {_MAX_INT64} instead of {expected}")
    # 64 bits, because weighted sums do not fit into small integers. A copy, because the plugin may reuse its array.
    return value.astype(np.int64)


def reasons(value: Any) -> Sequence[FilterReason]:
    if not isinstance(value, list | tuple):
        raise invalid_result(value, "a list or tuple of FilterReason")
    return [reason(each, "each of reasons") for each in value]


# PostFilter and the binding cycle


def post_filter_result(value: Any) -> PostFilterNomination | PostFilterUnschedulable | PostFilterUnresolvable | str:
    if isinstance(value, PostFilterNomination):
        _text(value.node_name, "node_name of PostFilterNomination")
        if not isinstance(value.victims, tuple) or not all(isinstance(each, PodInfo) for each in value.victims):
            raise InvalidPluginResult(
                f"victims of PostFilterNomination must be a tuple of pods, not {_short_repr(value.victims)}"
            )
        return value
    if isinstance(value, PostFilterUnschedulable | PostFilterUnresolvable):
        return type(value)(_text(value.reason, f"reason of {type(value).__name__}"))
    if isinstance(value, str):
        return printable(value)
    raise invalid_result(value, "a PostFilterNomination, a PostFilterUnschedulable, a PostFilterUnresolvable or a text")


def writes(value: Any, expected: str = "a list or tuple of ObjectPatch") -> Collection[ObjectPatch]:
    """The result of ``post_bind``."""
    if not isinstance(value, list | tuple) or not all(isinstance(each, ObjectPatch) for each in value):
        raise invalid_result(value, expected)
    for each in value:
        _check_write(each)
    return value


def _check_write(value: ObjectPatch) -> None:
    """An invalid write is rejected here: otherwise it would fail in the dispatcher, together with other writes."""
    if not isinstance(value.resource, APIResource):
        raise InvalidPluginResult(f"resource of ObjectPatch must be an APIResource, not {_short_repr(value.resource)}")
    resource = value.resource
    resource_fields = (resource.group, resource.version, resource.plural)
    texts = (*resource_fields, value.namespace, value.name, value.uid, value.subresource)
    if not all(isinstance(each, str) and printable(each) == each for each in texts):
        raise InvalidPluginResult(f"returned an ObjectPatch whose names are not texts: {_short_repr(value)}")
    if value.how not in ("merge", "strategic"):
        raise InvalidPluginResult(f"how of ObjectPatch must be merge or strategic, not {_short_repr(value.how)}")
    try:
        # msgspec encodes NaN and infinity as null; json.dumps rejects them.
        is_body = isinstance(value.body, Mapping) and bool(msgspec.json.encode(value.body))
        json.dumps(msgspec.to_builtins(value.body), allow_nan=False)
    except BaseException:
        is_body = False
    if not is_body:
        raise InvalidPluginResult(
            f"body of ObjectPatch must be a mapping that JSON can express, not {_short_repr(value.body)}"
        )


def pre_bind_result(value: Any, plugin: str) -> Collection[ObjectPatch] | Rejection:
    expected = "a Rejection, or a list or tuple of ObjectPatch"
    return _check_rejection(value, plugin, expected) if isinstance(value, Rejection) else writes(value, expected)


def awaited(value: Any) -> PreBindPending | str | None:
    if isinstance(value, PreBindPending):
        return PreBindPending(events_to_register(value.wakers, "wakers of PreBindPending must be"))
    if isinstance(value, str):
        return printable(value)
    if value is None:
        return None
    raise invalid_result(value, "None, a PreBindPending or a text")


def bind_result(value: Any, pod: PodInfo, node_name: str) -> effects.Bind | ObjectPatch | None:
    if isinstance(value, effects.Bind):
        if value.pod.uid != pod.uid or value.node_name != node_name:
            raise InvalidPluginResult("returned a Bind of another pod, or to another node, than it was asked about")
        if value.instead is not None and not isinstance(value.instead, ObjectPatch):
            raise InvalidPluginResult(
                f"instead of Bind must be None or an ObjectPatch, not {_short_repr(value.instead)}"
            )
        if value.instead is not None:
            _check_write(value.instead)
        return value
    if isinstance(value, ObjectPatch):
        _check_write(value)
        return value
    if value is None:
        return None
    raise invalid_result(value, "None, a Bind or an ObjectPatch")


def no_result(value: Any) -> None:
    """The result of ``unreserve``."""
    if value is not None:
        raise invalid_result(value, "None")


def cluster_events(value: Any) -> list[ClusterEvent]:
    """The result of ``applied`` or ``removed``: any iterable; a generator runs here."""
    if isinstance(value, str | Mapping) or not hasattr(value, "__iter__"):
        raise invalid_result(value, "an iterable of ClusterEvent")
    found = list(value)
    for each in found:
        if not isinstance(each, ClusterEvent):
            raise invalid_result(each, "a ClusterEvent (one of those returned)")
        texts = (each.resource, each.action, each.custom, *(() if each.target is None else (each.target,)))
        if not all(type(text) is str for text in texts):
            raise InvalidPluginResult(
                f"returned a ClusterEvent whose resource, action, target or custom is no text: {_short_repr(each)}"
            )
        if not _is_topic(each.subjects):
            raise InvalidPluginResult(
                f"returned a ClusterEvent whose subjects are not a tuple of texts: {_short_repr(each)}"
            )
    return found
