"""The engines of estimates: the scheduler and the quota controller of ``headgate up``, on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from headgate.cli.wiring.controllers import quota_settings
from headgate.cli.wiring.plugins import InstalledPlugins
from headgate.cli.wiring.scheduler import default_configuration, installed_plugins
from headgate.cli.wiring.simulation import SimulatedEngines
from headgate.jobs.settings import DEFAULT as DEFAULT_JOBS
from headgate.kube.feature_gates import DEFAULTS
from headgate.quota.controller.quota_controller import QuotaController
from headgate.scheduling.config.queue_profile import queue_profile
from headgate.scheduling.scheduler import Scheduler


class EstimateEngines:
    """``names``: the schedulers whose pods are in queues, also those for which only gates are removed: their own
    scheduler is represented by Headgate's. Plugins of other packages take no part."""

    def __init__(self, names: Iterable[str]) -> None:
        chosen = tuple(dict.fromkeys(names))
        plugins: InstalledPlugins = installed_plugins(lambda problem: None)
        configuration = default_configuration(chosen, plugins)
        profiles = tuple(queue_profile(each.name) for each in configuration.profiles)
        self._engines: Final = SimulatedEngines(replace(configuration, profiles=profiles), plugins, DEFAULTS)

    def scheduler(self, now_s: Callable[[], float], report: Callable[[str], None]) -> Scheduler:
        return self._engines.scheduler(now_s, report)


def make_quota_controller() -> QuotaController:
    """Pods take no part in the replay of Workloads, so none is waited for."""
    return QuotaController(replace(quota_settings(DEFAULTS, DEFAULT_JOBS), starts_after_terminating=False))
