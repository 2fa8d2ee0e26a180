"""Validates the methods and attributes of a plugin once, when the plugin is made.

A method that is ``async``, or whose parameters differ from ``interface.py``, would fail for every pod. ``headgate
config check`` and the start of a scheduler reject it. ``result_checks.py`` validates the results of calls.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from headgate.kube.api_resources import APIResource
from headgate.kube.names import is_dns1123_subdomain
from headgate.scheduling.framework.interface import READS_NODE, READS_PODS
from headgate.scheduling.framework.result_checks import error_with_type

PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "pre_enqueue": ("pod",),
    "order_key": ("pod", "since_s"),
    "admit_unit": ("unit", "now_s"),
    "reserve_unit": ("unit", "now_s"),
    "release_pod": ("pod", "queue", "now_s"),
    "unit_order_key": ("unit",),
    "pre_filter": ("pod", "matrix"),
    "filter": ("shape", "matrix", "rows", "state"),
    "reasons": ("shape",),
    "post_filter": ("pod", "unplaced", "handle"),
    "pre_score": ("pod", "matrix"),
    "score": ("shape", "matrix", "rows", "state"),
    "scale": ("feasible",),
    "normalize": ("raw", "scale"),
    "reserve": ("pod", "node_name"),
    "unreserve": ("pod", "node_name"),
    "permit": ("pod", "node_name"),
    "released": (),
    "pre_bind": ("pod", "node_name"),
    "awaited": ("pod", "node_name"),
    "bind": ("pod", "node_name"),
    "post_bind": ("pod", "node_name"),
    "key": ("pod",),
    "stamp": ("shape", "matrix"),
    "wakers": ("shape",),
    "applied": ("resource", "wire"),
    "removed": ("resource", "namespace", "name"),
}
METHODS: Final = frozenset(PARAMETERS)
"""All methods of plugins that the scheduler calls."""
_REQUIRED_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "filter": ("reads", "reasons"),
    "score": ("reads",),
    "normalize": ("scale", "score"),
    "reserve": ("unreserve",),
    "reserve_unit": ("release_pod",),
    "release_pod": ("reserve_unit",),
    "awaited": ("pre_bind", "timeout_s"),
}
"""The other members that a plugin with this method must have."""
_MATRIX_RESOURCES: Final = frozenset({"pods", "nodes"})
_FIELD: Final = re.compile(r"[A-Za-z0-9_$][A-Za-z0-9_$-]*(\.[A-Za-z0-9_$][A-Za-z0-9_$-]*)*")
_VERSION: Final = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_PLURAL: Final = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_WATCH_METHODS: Final = ("applied", "removed")
"""Called only if the plugin has ``watched``. They return any iterable, so they may yield."""


def problems(plugin: object, name: str) -> list[str]:
    """What is wrong with a plugin that is registered under this name; empty if nothing is."""
    try:
        return [*_attribute_problems(plugin, name), *_method_problems(plugin)]
    except Exception as error:  # raised by a property or by the repr of a value
        return [f"its attributes cannot be read: {error_with_type(error)}"]


def _method_problems(plugin: object) -> Iterator[str]:
    watches = getattr(plugin, "watched", None) is not None
    for method, parameters in PARAMETERS.items():
        found = getattr(plugin, method, None)
        if method in _WATCH_METHODS and not watches:
            continue
        if found is None:
            if method in _WATCH_METHODS:
                yield f"it has watched but no {method}"
            continue
        called = f"{method}({', '.join(parameters)})"
        if not callable(found):
            yield f"{method} is not a method: it is called as {called}"
            continue
        if inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found):
            yield f"{method} is async: the scheduler calls {called} and does not await it"
        elif inspect.isgeneratorfunction(found) and method not in _WATCH_METHODS:
            yield f"{method} yields: {called} must return its answer"
        if not _accepts(found, len(parameters)):
            yield f"{method}{_signature(found)} cannot be called as {called}"
        for needed in _REQUIRED_MEMBERS.get(method, ()):
            if getattr(plugin, needed, None) is None:
                yield f"it has {method} but no {needed}"


def _accepts(method: Any, count: int) -> bool:
    try:
        inspect.signature(method).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return True  # written in C, without a readable signature
    return True


def _signature(method: Any) -> str:
    return str(inspect.signature(method))


def _attribute_problems(plugin: object, name: str) -> Iterator[str]:
    declared_name = getattr(plugin, "name", None)
    if declared_name != name:
        yield f"its attribute name is {declared_name!r}, and must be {name!r}, the name that it is registered under"
    reads = getattr(plugin, "reads", None)
    if reads is not None and (isinstance(reads, bool) or reads not in (READS_NODE, READS_PODS)):
        yield f"its attribute reads is {reads!r}, and must be READS_NODE or READS_PODS"
    annotations = getattr(plugin, "annotations", ())
    if not _are_texts(annotations):
        yield f"its attribute annotations is {annotations!r}, and must be a tuple of names"
    yield from _watched_problems(getattr(plugin, "watched", None))


def _watched_problems(watched: Any) -> Iterator[str]:
    if watched is None:
        return
    if not isinstance(watched, Mapping) or not all(isinstance(each, APIResource) for each in watched):
        yield f"its attribute watched is {watched!r}, and must be a mapping from APIResource to a tuple of fields"
        return
    for resource, fields in watched.items():
        yield from _resource_problems(resource)
        if not _are_texts(fields):
            yield f"its attribute watched has {fields!r} for {resource.plural}, and must have a tuple of fields"
            continue
        for field in fields:
            if _FIELD.fullmatch(field) is None:
                yield (
                    f"its attribute watched has the field {field!r} for {resource.plural}, and must have names "
                    "separated by dots, as in 'spec.nodeName', without list indices and wildcards"
                )


def _resource_problems(resource: Any) -> Iterator[str]:
    """Checks the form only: whether the kind is served is unknown here, and the scheduler waits for its definition."""
    prefix = f"its attribute watched names {resource!r}"
    if not isinstance(resource.group, str) or (resource.group and is_dns1123_subdomain(resource.group)):
        yield (
            f"{prefix}: group must be the name of an API group, as 'apps' or 'example.com', or empty for the core group"
        )
    if not isinstance(resource.version, str) or _VERSION.fullmatch(resource.version) is None:
        yield f"{prefix}: version must be a version of the group, as 'v1' or 'v1beta2'"
    if not isinstance(resource.plural, str) or _PLURAL.fullmatch(resource.plural) is None:
        yield f"{prefix}: plural must be the lower-case plural of the kind without a subresource, as 'configmaps'"
    if not isinstance(resource.namespaced, bool):
        yield f"{prefix}: namespaced must be True or False"
    if resource.group == "" and resource.plural in _MATRIX_RESOURCES:
        yield (
            f"{prefix}: {resource.plural} cannot be watched by a plugin, which gets no events of single objects; it "
            "finds them in the node matrix, and waits for their events by wakers"
        )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and all(isinstance(each, str) for each in value)
