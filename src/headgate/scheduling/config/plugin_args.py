"""Arguments of built-in plugins (``profiles[].pluginConfig[].args``): strict decoding, defaults, validation.

``READERS`` has one entry per plugin. Rules and messages are kube-scheduler's. The paths of errors in a
shape are ``…requestedToCapacityRatio.shape[i]…``, where the field is; kube-scheduler prints paths that do not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headgate.kube.field_errors import FieldErrors, Verbatim, duplicate, forbidden, invalid, not_supported, required
from headgate.kube.serializer.strict_decoding import (
    Decoder,
    Object,
    boolean,
    int32,
    int64,
    list_of,
    record,
    seconds,
    string_map,
    text,
)
from headgate.kube.validation.labels import validate_label_name
from headgate.scheduling.config import added_affinity
from headgate.scheduling.config.types import (
    CPU_AND_MEMORY,
    Args,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

Reader = Callable[[Object, str, FieldErrors], Args]
"""Takes the decoded fields, their path and the list of errors; returns the arguments with defaults."""

_RATIO: Final = "RequestedToCapacityRatio"
_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", _RATIO)
_TYPE_META: Final[Mapping[str, Decoder]] = {"apiVersion": text, "kind": text}
_RESOURCES: Final = list_of(record({"name": text, "weight": int64}))
_SHAPE: Final = list_of(record({"utilization": int32, "score": int32}))
_SELECTOR: Final = record(
    {
        "matchLabels": string_map,
        "matchExpressions": list_of(record({"key": text, "operator": text, "values": list_of(text)})),
    }
)
_SPREAD: Final = record(
    {
        **dict.fromkeys(("maxSkew", "minDomains"), int32),
        **dict.fromkeys(("topologyKey", "whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy"), text),
        "labelSelector": _SELECTOR,
        "matchLabelKeys": list_of(text),
    }
)
_MAX_SHAPE_SCORE: Final = 10


def args_decoder(fields: Mapping[str, Decoder]) -> Decoder:
    return record({**_TYPE_META, **fields})


def _read_fit_args(given: Object, path: str, errors: FieldErrors) -> NodeResourcesFitArgs:
    names: list[str] = [each or "" for each in given.get("ignoredResources", ())]
    groups: list[str] = [each or "" for each in given.get("ignoredResourceGroups", ())]
    for i, name in enumerate(names):
        errors += validate_label_name(name, f"{path}.ignoredResources[{i}]")
    for i, group in enumerate(groups):
        if "/" in group:
            errors.append(invalid(f"{path}.ignoredResourceGroups[{i}]", group, "resource group name can't contain '/'"))
        errors += validate_label_name(group, f"{path}.ignoredResourceGroups[{i}]")
    strategy_path = f"{path}.scoringStrategy"
    strategy: Object = given.get("scoringStrategy", {"type": "LeastAllocated"})
    kind = strategy.get("type", "")
    if kind not in _STRATEGIES:
        errors.append(not_supported(f"{strategy_path}.type", kind, _STRATEGIES))
    resources = _resource_specs(strategy.get("resources"))
    for i, each in enumerate(resources):
        if not 0 < each.weight <= 100:
            detail = f"resource weight of {each.name} not in valid range (0, 100]"
            errors.append(invalid(f"{strategy_path}.resources[{i}].weight", each.weight, detail))
    ratio = strategy.get("requestedToCapacityRatio")
    shape: tuple[UtilizationShapePoint, ...] = ()
    if ratio is not None:
        shape = _read_shape(ratio.get("shape"), f"{strategy_path}.requestedToCapacityRatio.shape", errors)
    elif kind == _RATIO:
        errors.append(required(f"{strategy_path}.requestedToCapacityRatio", f"the strategy {_RATIO} needs a shape"))
    return NodeResourcesFitArgs(frozenset(names), frozenset(groups), kind, resources, shape)


def _resource_specs(given: list[Object | None] | None) -> tuple[ResourceSpec, ...]:
    """A weight of 0 counts as absent."""
    resources = tuple(
        ResourceSpec((each or {}).get("name", ""), (each or {}).get("weight", 0) or 1) for each in given or ()
    )
    return resources or CPU_AND_MEMORY


def _read_shape(given: list[Object | None] | None, path: str, errors: FieldErrors) -> tuple[UtilizationShapePoint, ...]:
    points = tuple(
        UtilizationShapePoint((each or {}).get("utilization", 0), (each or {}).get("score", 0)) for each in given or ()
    )
    if not points:
        errors.append(required(path, "at least one point must be specified"))
    for i in range(1, len(points)):
        if points[i - 1].utilization >= points[i].utilization:
            item_path = f"{path}[{i}].utilization"
            errors.append(invalid(item_path, points[i].utilization, "values must be sorted in increasing order"))
            break
    for i, point in enumerate(points):
        if not 0 <= point.utilization <= 100:
            errors.append(invalid(f"{path}[{i}].utilization", point.utilization, "not in valid range [0, 100]"))
        if not 0 <= point.score <= _MAX_SHAPE_SCORE:
            detail = f"not in valid range [0, {_MAX_SHAPE_SCORE}]"
            errors.append(invalid(f"{path}[{i}].score", point.score, detail))
    return points


def _read_balanced_args(given: Object, path: str, errors: FieldErrors) -> NodeResourcesBalancedAllocationArgs:
    resources = _resource_specs(given.get("resources"))
    seen: set[str] = set()
    for i, each in enumerate(resources):
        if each.name in seen:
            errors.append(duplicate(f"{path}.resources[{i}].name", each.name))
        seen.add(each.name)
        if each.weight != 1:
            errors.append(invalid(f"{path}.resources[{i}].weight", each.weight, "must be 1"))
    return NodeResourcesBalancedAllocationArgs(resources)


def _read_spread_args(given: Object, path: str, errors: FieldErrors) -> PodTopologySpreadArgs:
    kind = given.get("defaultingType") or "System"
    constraints: list[Object] = [each or {} for each in given.get("defaultConstraints", ())]
    if kind not in ("System", "List"):
        errors.append(not_supported(f"{path}.defaultingType", kind, ("System", "List")))
    elif kind == "System" and constraints:
        errors.append(invalid(f"{path}.defaultingType", kind, "when .defaultConstraints are not empty"))
    seen: set[tuple[str, str]] = set()
    for i, each in enumerate(constraints):
        item_path = f"{path}.defaultConstraints[{i}]"
        key, action = each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")
        if each.get("maxSkew", 0) <= 0:
            errors.append(invalid(f"{item_path}.maxSkew", each.get("maxSkew", 0), "not in valid range (0, inf)"))
        if not key:
            errors.append(required(f"{item_path}.topologyKey", "can not be empty"))
        else:
            errors += validate_label_name(key, f"{item_path}.topologyKey")
        if not action:
            errors.append(required(f"{item_path}.whenUnsatisfiable", "can not be empty"))
        elif action not in ("DoNotSchedule", "ScheduleAnyway"):
            errors.append(not_supported(f"{item_path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
        if "labelSelector" in each:
            detail = "constraint must not define a selector, as they deduced for each pod"
            errors.append(forbidden(f"{item_path}.labelSelector", detail))
        if (key, action) in seen:
            errors.append(duplicate(item_path, Verbatim(f'"{{{key}, {action}}}"')))
        seen.add((key, action))
    return PodTopologySpreadArgs(tuple(constraints), kind)


def _read_inter_pod_args(given: Object, path: str, errors: FieldErrors) -> InterPodAffinityArgs:
    weight = given.get("hardPodAffinityWeight", 1)
    if not 0 <= weight <= 100:
        errors.append(invalid(f"{path}.hardPodAffinityWeight", weight, "not in valid range [0, 100]"))
    return InterPodAffinityArgs(weight, given.get("ignorePreferredTermsOfExistingPods", False))


def _read_node_affinity_args(given: Object, path: str, errors: FieldErrors) -> NodeAffinityArgs:
    added = given.get("addedAffinity")
    if added is None:
        return NodeAffinityArgs()
    errors += added_affinity.check(added, f"{path}.addedAffinity")
    return added_affinity.read(added)


def _read_volume_binding_args(given: Object, path: str, errors: FieldErrors) -> VolumeBindingArgs:
    timeout_s = given.get("bindTimeoutSeconds", 600)
    if timeout_s < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        errors.append(invalid(f"{path}.bindTimeoutSeconds", timeout_s, detail))
    if "shape" in given:
        detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        errors.append(invalid(f"{path}.shape", given["shape"], detail))
    return VolumeBindingArgs(timeout_s)


def _read_preemption_args(given: Object, path: str, errors: FieldErrors) -> DefaultPreemptionArgs:
    percentage, absolute = given.get("minCandidateNodesPercentage", 10), given.get("minCandidateNodesAbsolute", 100)
    percentage_path, absolute_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
    if not 0 <= percentage <= 100:
        errors.append(invalid(percentage_path, percentage, "not in valid range [0, 100]"))
    if absolute < 0:
        errors.append(invalid(absolute_path, absolute, "not in valid range [0, inf)"))
    if percentage == 0 and absolute == 0:
        errors.append(invalid(percentage_path, 0, "cannot be zero at the same time as minCandidateNodesAbsolute"))
        errors.append(invalid(absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage"))
    return DefaultPreemptionArgs(percentage, absolute)


def _read_dynamic_resources_args(given: Object, path: str, errors: FieldErrors) -> DynamicResourcesArgs:
    timeout_s = given.get("filterTimeout", 10.0)
    if timeout_s < 0:
        errors.append(invalid(f"{path}.filterTimeout", f"{timeout_s:g}s", "must be zero or positive"))
    if "bindingTimeout" in given:
        detail = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
        errors.append(forbidden(f"{path}.bindingTimeout", detail))
    return DynamicResourcesArgs(timeout_s)


READERS: Final[Mapping[str, tuple[Decoder, Reader]]] = {
    "NodeResourcesFit": (
        args_decoder(
            {
                "ignoredResources": list_of(text),
                "ignoredResourceGroups": list_of(text),
                "scoringStrategy": record(
                    {"type": text, "resources": _RESOURCES, "requestedToCapacityRatio": record({"shape": _SHAPE})}
                ),
            }
        ),
        _read_fit_args,
    ),
    "NodeResourcesBalancedAllocation": (args_decoder({"resources": _RESOURCES}), _read_balanced_args),
    "PodTopologySpread": (
        args_decoder({"defaultConstraints": list_of(_SPREAD), "defaultingType": text}),
        _read_spread_args,
    ),
    "InterPodAffinity": (
        args_decoder({"hardPodAffinityWeight": int32, "ignorePreferredTermsOfExistingPods": boolean}),
        _read_inter_pod_args,
    ),
    "NodeAffinity": (args_decoder({"addedAffinity": added_affinity.DECODER}), _read_node_affinity_args),
    "VolumeBinding": (args_decoder({"bindTimeoutSeconds": int64, "shape": _SHAPE}), _read_volume_binding_args),
    "DefaultPreemption": (
        args_decoder({"minCandidateNodesPercentage": int32, "minCandidateNodesAbsolute": int32}),
        _read_preemption_args,
    ),
    "DynamicResources": (
        args_decoder({"filterTimeout": seconds, "bindingTimeout": seconds}),
        _read_dynamic_resources_args,
    ),
}


def default_args(plugin: str) -> Any:
    """The arguments of a plugin without ``pluginConfig``; ``None`` if the plugin takes none."""
    reader = READERS.get(plugin)
    return None if reader is None else reader[1]({}, "", [])
