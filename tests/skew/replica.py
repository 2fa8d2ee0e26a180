"""One replica of ``headgate run`` with its options: what its webhooks decide by, and the controllers that it leads.

The wiring is that of ``cli/wiring/``. Only the runners are missing, which need sockets and clocks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec

from embedded import Embedded
from headgate.admission.settings import OWN_NAMESPACE, AdmissionSettings
from headgate.cli.wiring.controllers import make_job_controllers, quota_settings
from headgate.cli.wiring.gates import gate_controller_factory
from headgate.cli.wiring.plugins import InstalledPlugins, find_plugins
from headgate.cli.wiring.scheduler import default_configuration, scheduler_factory
from headgate.cli.wiring.webhooks import WebhookOptions, admission_settings
from headgate.controllers.framework.reconcile import Controller
from headgate.gate_policies.controller import GatePolicyController
from headgate.gate_policies.metrics import GatePolicyMetrics
from headgate.jobs.metrics import JobMetrics
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube.feature_gates import DEFAULTS, FeatureGates, contradiction
from headgate.quota.controller.quota_controller import QuotaController
from skew.pod_engines import GateProcess, SchedulerProcess

LEADER = "admin"
"""The user of the leader, and of each replica unless it says otherwise."""
ALL = frozenset({"scheduler", "webhooks", "quota", "jobs"})
GATES = frozenset({"gates", "webhooks"})


class Replica(msgspec.Struct, frozen=True):
    """The options by their names in the configuration file. ``user``: the account of the process."""

    components: frozenset[str] = ALL
    features: FeatureGates = DEFAULTS
    scheduler_names: tuple[str, ...] = ("headgate",)
    gated_scheduler_names: tuple[str, ...] = ()
    gates_all_pods: bool = False
    trusted_users: tuple[str, ...] = ()
    jobs: JobSettings = DEFAULT
    user: str = LEADER
    waits_for_terminating: bool = False

    def settings_of_webhooks(self) -> AdmissionSettings:
        assert not contradiction(self.features)
        options = WebhookOptions("", "", "", "", self.gates_all_pods, self.trusted_users, 0.0)
        names = self.gated_scheduler_names if "gates" in self.components else self.scheduler_names
        jobs = self.jobs if "jobs" in self.components else None
        return admission_settings(options, OWN_NAMESPACE, names, self.features, jobs, self.user)

    def makers(self, server: Embedded) -> list[Callable[[], Controller]]:
        """The controllers that it runs as the leader."""
        found: list[Callable[[], Controller]] = []
        if "scheduler" in self.components:
            found.append(functools.partial(self._scheduler, server))
        if "gates" in self.components:
            found.append(functools.partial(self._gates, server))
        if "quota" in self.components:
            found.append(lambda: QuotaController(quota_settings(self.features, self.jobs)))
        if "jobs" in self.components:
            shared: list[Controller] = []
            count = len(make_job_controllers(self.features, self.jobs, JobMetrics()))
            found += [functools.partial(self._next_job_controller, shared) for _ in range(count)]
        if self.features.gate_ownership and "webhooks" in self.components:
            found.append(lambda: GatePolicyController(GatePolicyMetrics()))
        return found

    def _next_job_controller(self, made: list[Controller]) -> Controller:
        """The controllers of jobs share state, so they are made together."""
        if not made:
            made += make_job_controllers(self.features, self.jobs, JobMetrics())
        return made.pop(0)

    def _scheduler(self, server: Embedded) -> SchedulerProcess:
        make = scheduler_factory(
            default_configuration(self.scheduler_names, _plugins()),
            _plugins(),
            self.features,
            lambda: server.epoch_s,
            all_profiles_wait=self.waits_for_terminating,
        )
        assert not isinstance(make, str), make
        return SchedulerProcess(server, make(_fail))

    def _gates(self, server: Embedded) -> GateProcess:
        make = gate_controller_factory(
            self.gated_scheduler_names,
            self.features,
            self.jobs,
            default_configuration(self.scheduler_names, _plugins()),
            _plugins(),
            lambda: server.epoch_s,
        )
        return GateProcess(server, make(_fail))


def _fail(problem: str) -> None:
    raise AssertionError(problem)


@functools.cache
def _plugins() -> InstalledPlugins:
    return find_plugins(())
