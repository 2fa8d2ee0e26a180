"""A scheduler, made from what a user said: a configuration and feature gates, and the plugins that are installed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from headgate.cli.plugins import Build, Found, find_plugins
from headgate.cli.scheduler_config import read_configuration
from headgate.jobs.names import MANAGED, POD_SET_LABEL, QUEUE_NAME
from headgate.kube.features import Features
from headgate.scheduling import plugin_methods
from headgate.scheduling.admitting import Queueing
from headgate.scheduling.cluster import Cluster
from headgate.scheduling.configuration.parsing import parse_configuration
from headgate.scheduling.configuration.queue_profile import QUEUE_SCHEDULERS, queue_profile
from headgate.scheduling.configuration.values import Configuration
from headgate.scheduling.metrics import Metrics
from headgate.scheduling.plugin_answers import printed
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from headgate.scheduling.profile import MAKERS, Maker
from headgate.scheduling.sampling import ALL
from headgate.scheduling.scheduler import Scheduler
from headgate.scheduling.telling import GATED_EVENTS_PER_HOUR

Complain = Callable[[str], None]
Make = Callable[[Complain], Scheduler]

BY_QUOTA: Final = (MANAGED, QUEUE_NAME, POD_SET_LABEL)
"""Labels of pods that were given quota which others may still be about to leave."""
_HEADER: Final = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def default_configuration(names: Sequence[str], found: Found) -> Configuration:
    """A profile per name, each with the default plugins: of kind queues for the names that users of queues know, and
    of kind pods for the others. All nodes are looked at: they cost little here."""
    profiles = [{"schedulerName": name} for name in names]
    document = {**_HEADER, "profiles": profiles, "percentageOfNodesToScore": ALL}
    read = parse_configuration(document, found.registry)
    assert isinstance(read, Configuration), read
    chosen = (queue_profile(each.name) if each.name in QUEUE_SCHEDULERS else each for each in read.profiles)
    return replace(read, profiles=tuple(chosen))


def configuration_of(file: Path, found: Found, names: Sequence[str]) -> Configuration | str:
    """What the file says, or what is wrong with it, line by line. ``names``: for a file that names no schedulers."""
    try:
        text = file.read_bytes()
    except OSError as error:
        return f"{file}: {error.strerror}"
    read = read_configuration(text, found.registry, names)
    return read if isinstance(read, Configuration) else "\n".join(each.at(file) for each in read)


def maker(
    configuration: Configuration,
    found: Found,
    features: Features,
    day: Callable[[], float] = time.time,
    spared: Collection[str] = BY_QUOTA,
    *,
    all_wait: bool = False,
    gated_events: int = GATED_EVENTS_PER_HOUR,
) -> Make | str:
    """Makes schedulers of this configuration, each with plugins of its own; a text if a plugin will not be made.
    ``day`` tells seconds since 1970; ``spared`` and ``all_wait``: see ``scheduling/leaving.py``; ``gated_events``: see
    ``scheduling/telling.py``."""
    makers: dict[str, Maker] = {**MAKERS, **{name: _foreign(name, build) for name, build in found.builders.items()}}
    readiness = features.pod_scheduling_readiness
    makers["SchedulingGates"] = lambda args, cluster: SchedulingGates(enabled=readiness)
    queueing = Queueing(features.queue_allocation_gate, day)
    configuration = _featured(configuration, features)

    def make(complain: Complain) -> Scheduler:
        metrics = Metrics(time.perf_counter, day=day)
        return Scheduler(
            configuration, makers, complain, metrics, queueing, spared, all_wait=all_wait, gated_events=gated_events
        )

    try:
        make(lambda problem: None)
    except Exception as error:  # whatever a stranger's class does with arguments that it does not like
        return f"the configuration names a plugin that cannot be made: {error}"
    return make


def _featured(configuration: Configuration, features: Features) -> Configuration:
    """What feature gates say about queues is part of what queues are told."""
    profiles = (
        profile
        if profile.queues is None
        else replace(profile, queues=replace(profile.queues, gang_atomic=features.gang_atomic_ungate))
        for profile in configuration.profiles
    )
    return replace(configuration, profiles=tuple(profiles))


def _foreign(name: str, build: Build) -> Maker:
    def made(args: Mapping[str, Any], cluster: Cluster) -> Any:
        plugin = built(build, args)
        found = plugin_methods.problems(plugin, name)
        if found:
            raise ValueError(f"plugin {name}: {'; '.join(found)}")
        return plugin

    return made


def built(build: Build, args: Mapping[str, Any]) -> Any:
    """A plugin of another package; whatever its constructor raises, sys.exit included, becomes a ``ValueError``."""
    try:
        return build(args)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ValueError(printed(error) or type(error).__name__) from error


def installed_plugins(complain: Complain) -> Found:
    found = find_plugins()
    for problem in found.problems:
        complain(problem)
    return found
