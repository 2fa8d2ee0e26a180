"""Arguments in a ``volcano-scheduler.conf``: the known ones, for plugins and for actions, and their allowed values.

There is one table entry per argument. Numbers and booleans may be written as text (``"10"``), as Volcano reads them.
Arguments that Volcano supports and Headgate does not have an entry too, so that the error gives the reason and does not
call them unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.conf import SLA, SLA_WAITING_TIME, Argument
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, type_invalid
from headgate.kube.serializer.strict_decoding import Object, similar
from headgate.kube.timestamps import MAX_DURATION_HOURS, parse_duration

ArgumentReader = Callable[[Any, str, FieldErrors], Argument | None]

_BOOLEANS: Final = {"true": True, "false": False}


class VolcanoArgument(msgspec.Struct, frozen=True):
    """``ignored``: why the argument is accepted and has no effect. ``not_supported``: why it is rejected."""

    read: ArgumentReader | None = None
    ignored: str = ""
    not_supported: str = ""


def _integer(minimum: int, maximum: int = (1 << 31) - 1) -> ArgumentReader:
    def read(value: Any, path: str, errors: FieldErrors) -> int | None:
        text = str(value)
        if isinstance(value, bool) or not isinstance(value, int | str) or not text.removeprefix("-").isdecimal():
            errors.append(type_invalid(path, value, "must be a whole number"))
            return None
        number = int(text) if len(text) <= 20 else maximum + 1
        if not minimum <= number <= maximum:
            errors.append(invalid(path, value, f"must be from {minimum} to {maximum}"))
            return None
        return number

    return read


def _boolean(value: Any, path: str, errors: FieldErrors) -> bool | None:
    found = value if isinstance(value, bool) else _BOOLEANS.get(str(value).lower())
    if found is None:
        errors.append(type_invalid(path, value, "must be true or false"))
    return found


def _factor(value: Any, path: str, errors: FieldErrors) -> float | None:
    try:
        number = float("nan" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not 1 <= number <= 1e6:  # also false for NaN
        errors.append(invalid(path, value, "must be a number from 1 to 1000000"))
        return None
    return number


def _duration(value: Any, path: str, errors: FieldErrors) -> float | None:
    nanoseconds = parse_duration(value) if isinstance(value, str) else ""
    if isinstance(nanoseconds, str) or nanoseconds <= 0:
        errors.append(invalid(path, value, f"must be a duration above 0 and up to {MAX_DURATION_HOURS}, such as 1h30m"))
        return None
    return nanoseconds * 1e-9


def _names(value: Any, path: str, errors: FieldErrors) -> str | None:
    if not isinstance(value, str):
        errors.append(type_invalid(path, value, "must be the names of resources, separated by commas"))
        return None
    return value


_WEIGHT: Final = VolcanoArgument(_integer(0, 1_000_000))
_ENABLE: Final = VolcanoArgument(_boolean)
_SHARED_DEVICES: Final = VolcanoArgument(
    not_supported="shared devices are not supported; whole ones are asked for as any other resource"
)
_RESOURCE_CLAIMS: Final = VolcanoArgument(not_supported="resource claims are not allocated by this scheduler")
_CACHE_SWITCH: Final = VolcanoArgument(_boolean, ignored="this scheduler has no such cache")

WEIGHTS: Final[Mapping[str, int]] = {
    "leastrequested.weight": 1,
    "mostrequested.weight": 0,
    "nodeaffinity.weight": 2,
    "podaffinity.weight": 2,
    "balancedresource.weight": 1,
    "tainttoleration.weight": 3,
    "imagelocality.weight": 1,
    "podtopologyspread.weight": 2,
}
"""Arguments of ``nodeorder`` with their defaults."""
SWITCHES: Final[Mapping[str, str]] = {
    "predicate.NodeAffinityEnable": "NodeAffinity",
    "predicate.NodePortsEnable": "NodePorts",
    "predicate.TaintTolerationEnable": "TaintToleration",
    "predicate.PodAffinityEnable": "InterPodAffinity",
    "predicate.NodeVolumeLimitsEnable": "NodeVolumeLimits",
    "predicate.VolumeZoneEnable": "VolumeZone",
    "predicate.PodTopologySpreadEnable": "PodTopologySpread",
    "predicate.VolumeBindingEnable": "VolumeBinding",
}
"""Arguments of ``predicates``: each enables or disables a filter."""
BIND_TIMEOUT: Final = "volumebinding.bindTimeoutSeconds"
BINPACK_RESOURCES: Final = "binpack.resources"

_PLUGINS: Final[Mapping[str, Mapping[str, VolcanoArgument]]] = {
    "capacity": {
        "ancestorReclaimLevel": VolcanoArgument(_integer(0, 5)),
        "capacity.DynamicResourceAllocationEnable": _RESOURCE_CLAIMS,
        "capacity.DRAConsumableCapacityEnable": _RESOURCE_CLAIMS,
    },
    "overcommit": {"overcommit-factor": VolcanoArgument(_factor)},
    SLA: {SLA_WAITING_TIME: VolcanoArgument(_duration)},
    "nodeorder": dict.fromkeys(WEIGHTS, _WEIGHT),
    "binpack": {
        **dict.fromkeys(("binpack.weight", "binpack.cpu", "binpack.memory"), _WEIGHT),
        BINPACK_RESOURCES: VolcanoArgument(_names),
    },
    "predicates": {
        **dict.fromkeys(SWITCHES, _ENABLE),
        BIND_TIMEOUT: VolcanoArgument(_integer(0)),
        "predicate.CacheEnable": _CACHE_SWITCH,
        "predicate.DynamicResourceAllocationEnable": _RESOURCE_CLAIMS,
        "dynamicresources.filterTimeoutSeconds": _RESOURCE_CLAIMS,
        **dict.fromkeys(
            ("predicate.GPUSharingEnable", "predicate.GPUNumberEnable", "predicate.VGPUEnable"), _SHARED_DEVICES
        ),
        **dict.fromkeys(
            ("predicate.ProportionalEnable", "predicate.resources"),
            VolcanoArgument(
                not_supported="keeping CPU and memory back beside devices is not supported; set requests instead"
            ),
        ),
        **dict.fromkeys(
            ("volumebinding.shape", "volumebinding.weight"),
            VolcanoArgument(not_supported="nodes are not scored by their free storage"),
        ),
    },
}
_CACHE_ARGUMENTS: Final = {"predicateErrorCacheEnable": _CACHE_SWITCH}
_ACTIONS: Final[Mapping[str, Mapping[str, VolcanoArgument]]] = {
    "allocate": _CACHE_ARGUMENTS,
    "backfill": _CACHE_ARGUMENTS,
    "reclaim": _CACHE_ARGUMENTS,
    "preempt": {
        **_CACHE_ARGUMENTS,
        "minCandidateNodesPercentage": VolcanoArgument(_integer(0, 100)),
        "minCandidateNodesAbsolute": VolcanoArgument(_integer(0)),
        "enableTopologyAwarePreemption": VolcanoArgument(
            _boolean, ignored="victims are always chosen by trying whether the pod fits without them"
        ),
        "topologyAwarePreemptWorkerNum": VolcanoArgument(
            _integer(1), ignored="there are no workers: all nodes are tried at once"
        ),
        "maxCandidateNodesAbsolute": VolcanoArgument(
            _integer(0), ignored="the number of candidates has no upper limit"
        ),
    },
}


def read_plugin(name: str, given: Object, path: str, errors: FieldErrors, remarks: list[str]) -> dict[str, Argument]:
    """The valid arguments of a plugin. Errors, and remarks about arguments without an effect, are added to the
    lists."""
    arguments = _PLUGINS.get(name, {})
    if name == "binpack":
        arguments = {**arguments, **_binpack_weights(given.get(BINPACK_RESOURCES))}
    return _read(arguments, f"the plugin {name}", given, path, errors, remarks)


def read_action(name: str, given: Object, path: str, errors: FieldErrors, remarks: list[str]) -> dict[str, Argument]:
    """As :func:`read_plugin`, for an action."""
    return _read(_ACTIONS.get(name, {}), f"the action {name}", given, path, errors, remarks)


def listed_resources(names: object) -> list[str]:
    return [each for each in map(str.strip, names.split(",")) if each] if isinstance(names, str) else []


def _binpack_weights(names: object) -> dict[str, VolcanoArgument]:
    """A weight argument for each resource in the list; weights of other resources would be ignored."""
    return {f"{BINPACK_RESOURCES}.{each}": _WEIGHT for each in listed_resources(names)}


def _read(
    arguments: Mapping[str, VolcanoArgument],
    owner: str,
    given: Object,
    path: str,
    errors: FieldErrors,
    remarks: list[str],
) -> dict[str, Argument]:
    found: dict[str, Argument] = {}
    for name, value in given.items():
        item_path = f"{path}.{name}"
        argument = arguments.get(name)
        if argument is None:
            errors.append(forbidden(item_path, _unknown(name, owner, arguments)))
        elif argument.read is None:
            if value not in (False, "false", None):
                errors.append(forbidden(item_path, argument.not_supported))
        elif value is not None:
            read = argument.read(value, item_path, errors)
            if read is not None:
                found[name] = read
            if argument.ignored:
                remarks.append(f"{item_path}: changes nothing: {argument.ignored}")
    return found


def _unknown(name: str, owner: str, arguments: Mapping[str, VolcanoArgument]) -> str:
    if name.startswith(f"{BINPACK_RESOURCES}.") and BINPACK_RESOURCES in arguments:
        return f"name the resource in {BINPACK_RESOURCES}, too: a weight alone does not count"
    close = similar(name, arguments)
    if close:
        return f"{owner} has no such argument: is it {close}?"
    known = ", ".join(each for each, argument in arguments.items() if argument.read is not None)
    return f"{owner} has no such argument; it has {known}" if known else f"{owner} takes no arguments"
