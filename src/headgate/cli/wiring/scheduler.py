"""Builds a scheduler from a configuration, feature gates, and the installed plugins."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from headgate.cli.wiring.plugins import Build, InstalledPlugins, find_plugins
from headgate.cli.wiring.scheduler_config import read_configuration
from headgate.jobs.names import MANAGED, POD_SET_LABEL, QUEUE_NAME
from headgate.kube.feature_gates import FeatureGates
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.config.queue_profile import QUEUE_SCHEDULERS, queue_profile
from headgate.scheduling.config.scheduler_configuration import parse_configuration
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.framework import signature_checks
from headgate.scheduling.framework.node_sampling import ALL
from headgate.scheduling.framework.result_checks import error_text
from headgate.scheduling.gates.queue_admission import QueueAdmissionSettings
from headgate.scheduling.metrics.scheduler_metrics import SchedulerMetrics
from headgate.scheduling.plugins.registry import IN_TREE_PLUGINS, PluginFactory
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from headgate.scheduling.pod_conditions import GATED_EVENTS_PER_HOUR
from headgate.scheduling.scheduler import Scheduler

Complain = Callable[[str], None]
SchedulerMaker = Callable[[Complain], Scheduler]

BY_QUOTA: Final = (MANAGED, QUEUE_NAME, POD_SET_LABEL)
"""Labels of pods that were given quota which others may still be about to leave."""
_HEADER: Final = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def default_configuration(names: Sequence[str], found: InstalledPlugins) -> KubeSchedulerConfiguration:
    """A profile per name, each with the default plugins: of kind queues for the names that users of queues know, and
    of kind pods for the others. All nodes are looked at: they cost little here."""
    profiles = [{"schedulerName": name} for name in names]
    document = {**_HEADER, "profiles": profiles, "percentageOfNodesToScore": ALL}
    read = parse_configuration(document, found.registry)
    assert isinstance(read, KubeSchedulerConfiguration), read
    chosen = (queue_profile(each.name) if each.name in QUEUE_SCHEDULERS else each for each in read.profiles)
    return replace(read, profiles=tuple(chosen))


def configuration_of(file: Path, found: InstalledPlugins, names: Sequence[str]) -> KubeSchedulerConfiguration | str:
    """What the file says, or what is wrong with it, line by line. ``names``: for a file that names no schedulers."""
    try:
        text = file.read_bytes()
    except OSError as error:
        return f"{file}: {error.strerror}"
    read = read_configuration(text, found.registry, names)
    return read if isinstance(read, KubeSchedulerConfiguration) else "\n".join(each.at(file) for each in read)


def scheduler_factory(
    configuration: KubeSchedulerConfiguration,
    found: InstalledPlugins,
    features: FeatureGates,
    day: Callable[[], float] = time.time,
    spared: Collection[str] = BY_QUOTA,
    *,
    all_wait: bool = False,
    gated_events: int = GATED_EVENTS_PER_HOUR,
) -> SchedulerMaker | str:
    """Makes schedulers of this configuration, each with plugins of its own; a text if a plugin will not be made.
    ``day`` tells seconds since 1970; ``spared`` and ``all_wait``: see ``scheduling/cluster/terminating_pods.py``;
    ``gated_events``: see ``scheduling/pod_conditions.py``."""
    makers: dict[str, PluginFactory] = {
        **IN_TREE_PLUGINS,
        **{name: _foreign(name, build) for name, build in found.builders.items()},
    }
    readiness = features.pod_scheduling_readiness
    makers["SchedulingGates"] = lambda args, cluster: SchedulingGates(enabled=readiness)
    queueing = QueueAdmissionSettings(features.queue_allocation_gate, day)
    configuration = _featured(configuration, features)

    def make(complain: Complain) -> Scheduler:
        metrics = SchedulerMetrics(time.perf_counter, wall_clock=day)
        return Scheduler(
            configuration, makers, complain, metrics, queueing, spared, all_wait=all_wait, gated_events=gated_events
        )

    try:
        make(lambda problem: None)
    except Exception as error:  # whatever a stranger's class does with arguments that it does not like
        return f"the configuration names a plugin that cannot be made: {error}"
    return make


def _featured(configuration: KubeSchedulerConfiguration, features: FeatureGates) -> KubeSchedulerConfiguration:
    """What feature gates say about queues is part of what queues are told."""
    profiles = (
        profile
        if profile.queues is None
        else replace(profile, queues=replace(profile.queues, gang_atomic=features.gang_atomic_ungate))
        for profile in configuration.profiles
    )
    return replace(configuration, profiles=tuple(profiles))


def _foreign(name: str, build: Build) -> PluginFactory:
    def made(args: Mapping[str, Any], cluster: Cluster) -> Any:
        plugin = build_plugin(build, args)
        found = signature_checks.problems(plugin, name)
        if found:
            raise ValueError(f"plugin {name}: {'; '.join(found)}")
        return plugin

    return made


def build_plugin(build: Build, args: Mapping[str, Any]) -> Any:
    """A plugin of another package; whatever its constructor raises, sys.exit included, becomes a ``ValueError``."""
    try:
        return build(args)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ValueError(error_text(error) or type(error).__name__) from error


def installed_plugins(complain: Complain) -> InstalledPlugins:
    found = find_plugins()
    for problem in found.problems:
        complain(problem)
    return found
