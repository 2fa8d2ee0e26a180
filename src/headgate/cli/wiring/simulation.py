"""The engines of ``headgate simulate``: the same constructors as in ``headgate up``, with the virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headgate.cli.wiring.controllers import make_job_controllers, quota_settings
from headgate.cli.wiring.plugins import InstalledPlugins
from headgate.cli.wiring.scheduler import scheduler_factory
from headgate.controllers.framework.reconcile import Controller
from headgate.controllers.jobs.controller import JobController
from headgate.jobs.metrics import JobMetrics
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube.feature_gates import FeatureGates
from headgate.quota.controller.quota_controller import QuotaController
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.framework.plugin_timers import no_time
from headgate.scheduling.scheduler import Scheduler


class SimulatedEngines:
    """Implements ``Engines`` of ``simulate/simulation.py``. Plugins are not timed, so that the same input gives the
    same messages."""

    def __init__(
        self,
        configuration: KubeSchedulerConfiguration,
        plugins: InstalledPlugins,
        features: FeatureGates,
        jobs: JobSettings = DEFAULT,
    ) -> None:
        self._configuration = configuration
        self._plugins = plugins
        self._features = features
        self._jobs = jobs

    def find_problem(self) -> str:
        """Why the scheduler cannot be made; empty if it can."""
        made = scheduler_factory(self._configuration, self._plugins, self._features, timer=no_time)
        return made if isinstance(made, str) else ""

    def scheduler(self, now_s: Callable[[], float], report: Callable[[str], None]) -> Scheduler:
        make = scheduler_factory(self._configuration, self._plugins, self._features, now_s, timer=no_time)
        assert not isinstance(make, str), make
        return make(report)

    def controllers(self, random_suffix: Callable[[], str]) -> Iterable[Controller]:
        yield QuotaController(quota_settings(self._features, self._jobs))
        yield from make_job_controllers(self._features, self._jobs, JobMetrics())
        yield JobController(random_suffix, self._features)
