"""Reads a ``volcano-scheduler.conf``: returns a :class:`VolcanoConfiguration`, or all errors in it.

Actions are a comma-separated text; plugins are listed in tiers, each with options (``enablePreemptable: false``) and
arguments. Features that only Volcano has are rejected by name; settings that are allowed and have no effect give a
remark. ``volcano_arguments.py`` reads the arguments, ``queue_profile.py`` makes the node plugins, and
``cli/wiring/scheduler_config.py`` adds line numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.capacity.conf import (
    ACTIONS,
    ALLOCATE,
    BACKFILL,
    ENABLE_OPTIONS,
    ENQUEUE,
    EXTENSION_POINTS,
    Argument,
    PluginOption,
    SchedulerConf,
)
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, not_supported, required
from headgate.kube.serializer.strict_decoding import Object, boolean, list_of, mapping, record, similar, text
from headgate.scheduling.config.plugin_registry import BUILT_IN, QUEUE_METHODS, PluginEntry, Registry
from headgate.scheduling.config.volcano_arguments import read_action, read_plugin

HIERARCHY: Final = "enableHierarchy"
OPTIONS: Final[Mapping[str, str]] = {
    **{
        f"enable{point[0].upper()}{point[1:]}": point
        for point in (
            *("jobOrder", "jobReady", "jobPipelined", "jobEnqueued", "jobStarving", "taskOrder", "queueOrder"),
            *("preemptable", "reclaimable", "preemptive", "predicate", "bestNode", "nodeOrder", "targetJob"),
            *("reservedNodes",),
        )
    },
    **{
        f"enabled{point[0].upper()}{point[1:]}": point
        for point in (
            *("overused", "allocatable", "victim", "clusterOrder", "hyperNodeOrder", "subJobReady"),
            *("subJobPipelined", "subJobOrder", "hyperNodeGradient"),
        )
    },
}
"""Volcano's names of the options: some begin with ``enable``, some with ``enabled``."""

_OTHER_ACTIONS: Final = {
    "shuffle": "moving pods that run is not supported",
    "gangpreempt": "use preempt: a gang is placed whole or not at all by every action here",
    "gangreclaim": "use reclaim: a gang is placed whole or not at all by every action here",
    "elect": "Volcano removed it in 1.6",
    "reserve": "Volcano removed it in 1.6",
}
_PLUGIN: Final = record(
    {"name": text, "arguments": mapping, HIERARCHY: boolean, **dict.fromkeys(OPTIONS, boolean)},
)
_DOCUMENT: Final = record(
    {
        "actions": text,
        "tiers": list_of(record({"plugins": list_of(_PLUGIN)})),
        "configurations": list_of(record({"name": text, "arguments": mapping})),
        "metrics": mapping,
    }
)
DISTINGUISHING: Final = frozenset({"actions", "tiers", "configurations"})
"""Fields by which a file is recognized as a ``volcano-scheduler.conf``."""


class VolcanoConfiguration(msgspec.Struct, frozen=True):
    conf: SchedulerConf
    remarks: tuple[str, ...] = ()


def parse_volcano_conf(value: Any, registry: Registry = BUILT_IN) -> VolcanoConfiguration | FieldErrors:
    """The configuration, or all errors. ``value``: the decoded YAML file; it is not modified. ``registry``: the
    installed plugins; those of other packages that serve an extension point of queues may be in a tier."""
    errors: FieldErrors = []
    remarks: list[str] = []
    given: Object = _DOCUMENT(value, "", errors) or {}
    if "metrics" in given:
        errors.append(forbidden("metrics", "only the plugin usage reads it, and that is not supported"))
    actions = _actions(given, errors, remarks)
    written = [
        _plugins((tier or {}).get("plugins", ()), f"tiers[{i}].plugins", registry, errors, remarks)
        for i, tier in enumerate(given.get("tiers", ()))
    ]
    errors += _find_conflicts(written)
    tiers = tuple(tuple(each for each in tier if each is not None) for tier in written)
    if not any(tiers) and not errors:
        errors.append(required("tiers", "name at least one plugin, such as predicates"))
    arguments = _configurations(given.get("configurations", ()), actions, errors, remarks)
    if errors:
        return errors
    conf = SchedulerConf(actions, tiers, arguments)
    return VolcanoConfiguration(conf, (*remarks, *_find_gaps(conf)))


def _actions(given: Object, errors: FieldErrors, remarks: list[str]) -> tuple[str, ...]:
    if not given.get("actions"):
        errors.append(required("actions", f"such as {', '.join(ACTIONS[:3])}"))
        return ()
    found: list[str] = []
    for name in (each.strip() for each in given["actions"].split(",")):
        if name in found:
            errors.append(duplicate("actions", name))
        elif name in _OTHER_ACTIONS:
            errors.append(invalid("actions", name, f"the action is not supported: {_OTHER_ACTIONS[name]}"))
        elif name not in ACTIONS:
            close = similar(name, dict.fromkeys(ACTIONS))
            suggestion = f"is it {close}?" if close else f"there are {', '.join(ACTIONS)}"
            errors.append(invalid("actions", name, f"no such action: {suggestion}"))
        found.append(name)
    if ALLOCATE not in found and all(each in ACTIONS for each in found):
        errors.append(required("actions", f"{ALLOCATE} is missing: without it nothing would be placed"))
    if ENQUEUE in found and ALLOCATE in found and found.index(ENQUEUE) > found.index(ALLOCATE):
        remarks.append("actions: enqueue comes after allocate: a new group waits for one more pass")
    return tuple(found)


def _plugins(
    given: list[Object | None], path: str, registry: Registry, errors: FieldErrors, remarks: list[str]
) -> list[PluginOption | None]:
    """The plugins of a tier. An invalid plugin becomes ``None``, so that the others keep their index: paths in errors
    count the items of the file."""
    external = {each.name: _external_points(each) for each in registry.values() if _external_points(each)}
    known = {**EXTENSION_POINTS, **external}
    found: list[PluginOption | None] = []
    for i, each in enumerate(given):
        written = each or {}
        item_path = f"{path}[{i}]"
        name = written.get("name", "")
        if name not in known:
            errors.append(_plugin_error(name, f"{item_path}.name", known, registry))
            found.append(None)
            continue
        off = _disabled_points(name, known[name], written, item_path, errors, remarks)
        arguments = written.get("arguments", {})
        if name in external:
            found.append(PluginOption(name, off, arguments, external[name]))
            continue
        arguments = read_plugin(name, arguments, f"{item_path}.arguments", errors, remarks)
        found.append(PluginOption(name, off, arguments))
    return found


def _external_points(entry: PluginEntry) -> tuple[str, ...]:
    """The extension points at which a plugin of another package is enabled in a tier. Volcano's name for the order of
    units is ``jobOrder``."""
    points = tuple(point for point in QUEUE_METHODS if point in entry.points)
    return (*points, "jobOrder") if "queueOrder" in points else points


def _plugin_error(name: str, path: str, known: Mapping[str, Any], registry: Registry) -> Any:
    if not name:
        return required(path, f"one of {', '.join(known)}")
    if name in registry:
        detail = f"the plugin serves no extension point of queues; these are {', '.join(QUEUE_METHODS)}"
        return invalid(path, name, detail)
    close = similar(name, known)
    if not close:
        return not_supported(path, name, tuple(known))
    return invalid(path, name, f"no such plugin: is it {close}?")


def _disabled_points(
    plugin: str, points: Sequence[str], written: Object, path: str, errors: FieldErrors, remarks: list[str]
) -> frozenset[str]:
    off: set[str] = set()
    for option, point in OPTIONS.items():
        value = written.get(option)
        if value is None:
            continue
        if point not in points and not value:
            continue  # the plugin does not serve this point anyway
        if point not in points:
            remarks.append(f"{path}.{option}: changes nothing: the plugin {plugin} does not use it")
        elif not value and point not in ENABLE_OPTIONS:
            detail = f"cannot be switched off here: leave the plugin {plugin} out instead"
            errors.append(forbidden(f"{path}.{option}", detail))
        elif not value:
            off.add(point)
    if written.get(HIERARCHY) and plugin == "drf":
        detail = "drf over a tree of queues is not supported: use the plugin capacity, which has one"
        errors.append(forbidden(f"{path}.{HIERARCHY}", detail))
    elif HIERARCHY in written and plugin != "capacity":
        remarks.append(f"{path}.{HIERARCHY}: changes nothing: the plugin {plugin} does not use it")
    elif written.get(HIERARCHY) is False:
        remarks.append(f"{path}.{HIERARCHY}: changes nothing: a queue that names a parent counts there, too")
    return frozenset(off)


def _find_conflicts(tiers: list[list[PluginOption | None]]) -> FieldErrors:
    """Errors about duplicate plugins and about plugins that exclude each other."""
    errors: FieldErrors = []
    seen: dict[str, str] = {}
    for i, tier in enumerate(tiers):
        for j, each in enumerate(tier):
            item_path = f"tiers[{i}].plugins[{j}].name"
            if each is None:
                continue
            if each.name in seen:
                errors.append(duplicate(item_path, each.name))
            seen.setdefault(each.name, item_path)
    if "capacity" in seen and "proportion" in seen:
        detail = "capacity and proportion both give queues their limits: keep one of them"
        later = [item_path for name, item_path in seen.items() if name in ("capacity", "proportion")][-1]
        errors.append(forbidden(later, detail))
    return errors


def _configurations(
    given: list[Object | None], actions: tuple[str, ...], errors: FieldErrors, remarks: list[str]
) -> dict[str, Mapping[str, Argument]]:
    found: dict[str, Mapping[str, Argument]] = {}
    for i, each in enumerate(given):
        name, item_path = (each or {}).get("name", ""), f"configurations[{i}]"
        if name not in ACTIONS:
            errors.append(not_supported(f"{item_path}.name", name, ACTIONS))
            continue
        if name in found:
            errors.append(duplicate(f"{item_path}.name", name))
        if name not in actions:
            remarks.append(f"{item_path}.name: the action {name} does not run")
        found[name] = read_action(name, (each or {}).get("arguments", {}), f"{item_path}.arguments", errors, remarks)
    return found


def _find_gaps(conf: SchedulerConf) -> list[str]:
    """Remarks about settings that are probably missing."""
    gaps = []
    if conf.overcommit_factor is not None:
        gaps.append("overcommit: changes nothing: queues admit groups by their limits, not by the size of the cluster")
    if not conf.runs(BACKFILL):
        gaps.append("actions: pods that ask for nothing are placed all the same: leaving backfill out changes nothing")
    if not conf.has_limits:
        gaps.append("tiers: without capacity or proportion queues have no limits")
    if not conf.is_enabled_at("predicates", "predicate"):
        gaps.append(
            "tiers: without predicates pods go to any node with enough free resources: node selectors, affinity and "
            "taints are ignored"
        )
    return gaps
