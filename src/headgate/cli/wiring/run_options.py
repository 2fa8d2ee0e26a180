"""The options of ``headgate run`` after validation, and the server for its metrics and health checks."""

from __future__ import annotations

import contextlib

import msgspec

from headgate.cli.options.log_options import say
from headgate.cli.wiring.metrics import ProcessMetrics, SecureMetricsOptions, serve_metrics_and_health
from headgate.cli.wiring.plugins import InstalledPlugins
from headgate.cli.wiring.scheduler import SchedulerMaker
from headgate.cli.wiring.shutdown import ShutdownSignals
from headgate.cli.wiring.webhooks import WebhookOptions
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import Transport
from headgate.jobs.settings import DEFAULT as DEFAULT_JOBS
from headgate.jobs.settings import JobSettings
from headgate.kube.feature_gates import DEFAULTS, FeatureGates
from headgate.runtime.webhooks.service import WebhookHealth, WebhookServerConfig
from headgate.scheduling.config.types import KubeSchedulerConfiguration


class ShadowOptions(msgspec.Struct, frozen=True):
    """``for_s``: how long it runs; 0: until it is stopped. ``patience_s``: how long the other system may take for a
    decision before that is a difference."""

    is_on: bool = False
    for_s: float = 0.0
    patience_s: float = 30.0


class RunOptions(msgspec.Struct, frozen=True):
    """The options of the command, validated as far as possible without a server."""

    rest_config: RESTConfig
    configuration: KubeSchedulerConfiguration
    make: SchedulerMaker
    plugins: InstalledPlugins
    dry_run: bool
    takeover: bool
    metrics_at: tuple[str, int] | None
    components: frozenset[str] = frozenset({"scheduler"})
    webhooks: WebhookOptions | None = None
    webhook_server: WebhookServerConfig | None = None
    features: FeatureGates = DEFAULTS
    create_pod_groups: bool = False
    jobs: JobSettings = DEFAULT_JOBS
    gated_scheduler_names: tuple[str, ...] = ()
    secure_metrics: SecureMetricsOptions = SecureMetricsOptions()
    shadow: ShadowOptions = ShadowOptions()

    @property
    def queue_names(self) -> list[str]:
        """The scheduler names whose new pods the webhooks gate."""
        if "gates" in self.components:
            return list(self.gated_scheduler_names)
        profiles = [profile.name for profile in self.configuration.profiles if profile.queues is not None]
        return list(dict.fromkeys((*profiles, *self.gated_scheduler_names)))


def listen_problem(options: RunOptions, error: OSError) -> str:
    host, port = options.metrics_at or ("", 0)
    flags = "--metrics-listen" + (" and --metrics-cert" if options.secure_metrics.certificate else "")
    return f"cannot listen on {host}:{port}: {error.strerror or error}; check {flags}"


async def serve_metrics(
    options: RunOptions,
    metrics: ProcessMetrics,
    health: WebhookHealth,
    signals: ShutdownSignals,
    stack: contextlib.AsyncExitStack,
    transport: Transport,
) -> None:
    if options.metrics_at is not None:
        extra_checks = {"shutdown": signals.problem}
        if options.webhook_server is not None:
            extra_checks["webhooks"] = health.problem
            metrics.health_registry.add_metrics_page(health.metrics_page)
        url = await serve_metrics_and_health(
            metrics.health_registry, options.metrics_at, stack, extra_checks, options.secure_metrics, transport
        )
        say(f"metrics: {url}")
