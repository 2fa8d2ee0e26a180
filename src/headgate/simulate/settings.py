"""The settings of one simulation, and of its variants: gates, feature gates, machines, autoscaler, prices, delays.

``docs/simulate.md`` documents the file. Objects (queues, nodes, flavors) are changed by the patches of a variant
(``variants.py``), not by settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from headgate.nodes.autoscalers.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerFlags
from headgate.nodes.autoscalers.instance_types import InstanceType
from headgate.nodes.autoscalers.karpenter import Karpenter, KarpenterSettings
from headgate.nodes.autoscalers.model import AutoscalerModel
from headgate.nodes.autoscalers.node_claims import NodePool
from headgate.nodes.autoscalers.node_groups import NodeGroup
from headgate.simulate.prices import MAX_PRICE, price_of
from headgate.simulate.trace import MAX_TIME_S, amounts_problem

Object = dict[str, Any]

Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_TIME_S)]
Price = Annotated[float, msgspec.Meta(ge=0, le=MAX_PRICE)]

DEFAULT_SCHEDULER: Final = "headgate"


class _Section(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A part of the file."""


class MachineType(_Section, frozen=True):
    """A type of machine that an autoscaler buys."""

    name: str
    resources: Mapping[str, str]
    labels: Mapping[str, str] = {}
    taints: tuple[Mapping[str, Any], ...] = ()
    price: Price | None = None


class MachineGroup(_Section, frozen=True):
    """A node group of Cluster Autoscaler, or a NodePool of Karpenter. A node group has one machine type."""

    name: str
    machine_types: Annotated[tuple[MachineType, ...], msgspec.Meta(min_length=1)]
    min_size: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_size: Annotated[int, msgspec.Meta(ge=0)] = 1000
    weight: int = 0
    limits: Mapping[str, int] = {}
    consolidate_after_seconds: Seconds = 30.0


class AutoscalerSettings(_Section, frozen=True):
    """``boot_seconds``: from the order of a machine until it is Ready. The other fields are named after the options of
    Cluster Autoscaler and Karpenter, and have their defaults."""

    model: Literal["cluster-autoscaler", "karpenter"]
    groups: Annotated[tuple[MachineGroup, ...], msgspec.Meta(min_length=1)]
    boot_seconds: Seconds = 120.0
    scan_interval_seconds: Annotated[float, msgspec.Meta(ge=0.1, le=MAX_TIME_S)] = 10.0
    scale_down_unneeded_seconds: Seconds = 600.0
    scale_down_delay_after_add_seconds: Seconds = 600.0
    max_nodes_total: Annotated[int, msgspec.Meta(ge=0)] = 0
    batch_idle_seconds: Seconds = 1.0
    batch_max_seconds: Seconds = 10.0


class Settings(_Section, frozen=True):
    """``gates``: whether all pods in Volcano's queues, or none, opt in to the queue gate; ``None``: all pods of a
    trace, and those pods of a recording that opted in. It has no meaning for Kueue's queues.
    ``feature_gates``: by name. ``configuration_file``: a scheduler configuration or a Configuration of Headgate.
    ``prices``: per hour, by instance type. ``start_seconds``: from the binding of a pod until it runs;
    ``stop_seconds``: how long a pod that is deleted keeps its node."""

    gates: bool | None = None
    feature_gates: Mapping[str, bool] = {}
    configuration_file: str = ""
    scheduler_name: str = ""
    autoscaler: AutoscalerSettings | None = None
    prices: Mapping[str, Price] = {}
    start_seconds: Seconds = 0.0
    stop_seconds: Seconds = 5.0


def find_problem(settings: Settings) -> str:
    """Why the settings contradict each other; empty if they do not."""
    if settings.autoscaler is None:
        return ""
    for group in settings.autoscaler.groups:
        for each in group.machine_types:
            if problem := amounts_problem(f"autoscaler.groups: {group.name}: {each.name}: resources", each.resources):
                return problem
    if settings.autoscaler.model == "karpenter":
        return ""
    for group in settings.autoscaler.groups:
        if len(group.machine_types) != 1:
            return (
                f"autoscaler.groups: {group.name} has {len(group.machine_types)} machine types; a node group of "
                "Cluster Autoscaler has one"
            )
    return ""


def prices_of(settings: Settings) -> dict[str, float]:
    """Prices by instance type: those of the settings, then those of the machine types."""
    found = {}
    if settings.autoscaler is not None:
        for group in settings.autoscaler.groups:
            found.update({each.name: each.price for each in group.machine_types if each.price is not None})
    return {**found, **settings.prices}


def machine_nodes(settings: Settings) -> Iterator[Object]:
    """A node of each machine type, for validation."""
    groups = () if settings.autoscaler is None else settings.autoscaler.groups
    for each in (machine for group in groups for machine in group.machine_types):
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": each.name, "labels": dict(each.labels)},
            "spec": {"taints": [dict(taint) for taint in each.taints]},
        }


def make_autoscaler(settings: Settings) -> AutoscalerModel | None:
    """The model with its groups; ``None`` if the simulation has no autoscaler."""
    autoscaler = settings.autoscaler
    if autoscaler is None:
        return None
    prices = prices_of(settings)
    if autoscaler.model == "karpenter":
        return Karpenter(
            [
                NodePool(
                    group.name,
                    tuple(_instance_type(each, prices) for each in group.machine_types),
                    weight=group.weight,
                    limits=group.limits,
                    consolidate_after_s=group.consolidate_after_seconds,
                )
                for group in autoscaler.groups
            ],
            KarpenterSettings(autoscaler.batch_idle_seconds, autoscaler.batch_max_seconds),
        )
    flags = ClusterAutoscalerFlags(
        scan_interval_s=autoscaler.scan_interval_seconds,
        scale_down_unneeded_time_s=autoscaler.scale_down_unneeded_seconds,
        scale_down_delay_after_add_s=autoscaler.scale_down_delay_after_add_seconds,
        max_nodes_total=autoscaler.max_nodes_total,
    )
    groups = (
        NodeGroup(group.name, _instance_type(group.machine_types[0], prices), group.min_size, group.max_size)
        for group in autoscaler.groups
    )
    return ClusterAutoscaler(groups, flags)


def _instance_type(machine: MachineType, prices: Mapping[str, float]) -> InstanceType:
    resources = {"pods": "110", **machine.resources}
    made = InstanceType(machine.name, resources, machine.labels, taints=machine.taints)
    labels = {"node.kubernetes.io/instance-type": machine.name}
    return msgspec.structs.replace(made, price=price_of(labels, made.counts, prices))
