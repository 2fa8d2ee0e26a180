"""Builds a scheduler from a configuration, feature gates, and the installed plugins."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from headgate.cli.options.input_files import read_input
from headgate.cli.wiring.plugins import Build, InstalledPlugins, find_plugins
from headgate.cli.wiring.scheduler_config import read_configuration
from headgate.jobs.names import MANAGED, POD_SET_LABEL, QUEUE_NAME
from headgate.kube.feature_gates import FeatureGates
from headgate.scheduling.config.queue_profile import QUEUE_SCHEDULERS, queue_profile
from headgate.scheduling.config.scheduler_configuration import parse_configuration
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.framework import signature_checks
from headgate.scheduling.framework.node_sampling import ALL
from headgate.scheduling.framework.plugin_timers import TimerClock
from headgate.scheduling.framework.result_checks import error_text
from headgate.scheduling.gates.queue_admission import QueueAdmissionSettings
from headgate.scheduling.metrics.scheduler_metrics import SchedulerMetrics
from headgate.scheduling.plugins.registry import IN_TREE_PLUGINS, PluginFactory
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from headgate.scheduling.pod_conditions import GATED_EVENTS_PER_HOUR
from headgate.scheduling.scheduler import Scheduler

Warn = Callable[[str], None]
SchedulerMaker = Callable[[Warn], Scheduler]

QUOTA_LABELS: Final = (MANAGED, QUEUE_NAME, POD_SET_LABEL)
"""Pods with one of these labels have Kueue's quota. They wait for terminating pods, which may still use that quota."""
_HEADER: Final = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def default_configuration(names: Sequence[str], plugins: InstalledPlugins) -> KubeSchedulerConfiguration:
    """A profile for each name, with the default plugins. The profiles in ``QUEUE_SCHEDULERS`` use queues. All nodes are
    scored, because the node matrix makes that cheap."""
    profiles = [{"schedulerName": name} for name in names]
    document = {**_HEADER, "profiles": profiles, "percentageOfNodesToScore": ALL}
    parsed = parse_configuration(document, plugins.registry)
    assert isinstance(parsed, KubeSchedulerConfiguration), parsed
    chosen = (queue_profile(each.name) if each.name in QUEUE_SCHEDULERS else each for each in parsed.profiles)
    return replace(parsed, profiles=tuple(chosen))


def configuration_of(file: Path, plugins: InstalledPlugins, names: Sequence[str]) -> KubeSchedulerConfiguration | str:
    """The configuration, or its errors as a text with one line for each. ``names``: the scheduler names for a file that
    contains none."""
    text = read_input(file)
    if isinstance(text, str):
        return text
    parsed = read_configuration(text, plugins.registry, names)
    return parsed if isinstance(parsed, KubeSchedulerConfiguration) else "\n".join(each.at(file) for each in parsed)


def scheduler_factory(
    configuration: KubeSchedulerConfiguration,
    plugins: InstalledPlugins,
    features: FeatureGates,
    wall_clock: Callable[[], float] = time.time,
    waiting_labels: Collection[str] = QUOTA_LABELS,
    *,
    all_profiles_wait: bool = False,
    gated_events_per_hour: int = GATED_EVENTS_PER_HOUR,
    timer: TimerClock = time.perf_counter,
) -> SchedulerMaker | str:
    """A factory of schedulers, each with its own plugins; an error text if a plugin cannot be built. ``wall_clock``:
    returns the seconds since 1970. ``waiting_labels`` and ``all_profiles_wait``: see
    ``scheduling/cluster/terminating_pods.py``; ``gated_events_per_hour``: see ``scheduling/pod_conditions.py``.
    ``timer``: measures the duration of plugins."""
    factories: dict[str, PluginFactory] = {
        **IN_TREE_PLUGINS,
        **{name: _external_factory(name, build) for name, build in plugins.builders.items()},
    }
    readiness = features.pod_scheduling_readiness
    factories["SchedulingGates"] = lambda args, cluster: SchedulingGates(enabled=readiness)
    queueing = QueueAdmissionSettings(features.queue_allocation_gate, wall_clock)
    configuration = _with_features(configuration, features)

    def make(warn: Warn) -> Scheduler:
        metrics = SchedulerMetrics(timer, wall_clock=wall_clock)
        return Scheduler(
            configuration,
            factories,
            warn,
            metrics,
            queueing,
            waiting_labels,
            all_profiles_wait=all_profiles_wait,
            gated_events_per_hour=gated_events_per_hour,
        )

    try:
        make(lambda problem: None)
    except Exception as error:  # a plugin's constructor may raise anything
        return f"the configuration names a plugin that cannot be created: {error}"
    return make


def _with_features(configuration: KubeSchedulerConfiguration, features: FeatureGates) -> KubeSchedulerConfiguration:
    """The configuration with the feature gates that change how queues work."""
    has_leases = features.reservation_lease and features.queue_allocation_gate
    profiles = (
        profile
        if profile.queues is None
        else replace(
            profile,
            queues=replace(profile.queues, gang_atomic=features.gang_atomic_ungate, has_leases=has_leases),
        )
        for profile in configuration.profiles
    )
    return replace(configuration, profiles=tuple(profiles))


def _external_factory(name: str, build: Build) -> PluginFactory:
    return lambda args, cluster: build_checked_plugin(name, build, args)


def build_checked_plugin(name: str, build: Build, args: Mapping[str, Any]) -> Any:
    """As :func:`build_plugin`. Methods and attributes that ``headgate config check`` rejects are a ``ValueError``,
    too."""
    plugin = build_plugin(build, args)
    problems = signature_checks.problems(plugin, name)
    if problems:
        raise ValueError(f"plugin {name}: {'; '.join(problems)}")
    return plugin


def build_plugin(build: Build, args: Mapping[str, Any]) -> Any:
    """Builds a plugin of another package. Any error of its constructor, also SystemExit, becomes a ``ValueError``."""
    try:
        return build(args)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ValueError(error_text(error) or type(error).__name__) from error


def installed_plugins(warn: Warn) -> InstalledPlugins:
    found = find_plugins()
    for problem in found.problems:
        warn(problem)
    return found
