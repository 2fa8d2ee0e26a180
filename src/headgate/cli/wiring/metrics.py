"""The metrics of quota, jobs and GatePolicies, and the server for the metrics and health checks of all components."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

import headgate
from headgate.gate_policies.metrics import GatePolicyMetrics
from headgate.http.transport import Transport
from headgate.jobs.metrics import JobMetrics
from headgate.quota.metrics.quota_metrics import QuotaMetrics
from headgate.runtime.health.access_reviews import AccessReviews
from headgate.runtime.health.handler import Check
from headgate.runtime.health.registry import HealthRegistry
from headgate.runtime.health.secured_server import CertificateFiles, serve_secured_health
from headgate.runtime.health.server import serve_health

F = TypeVar("F", bound=Callable[..., Any])


class SecureMetricsOptions(msgspec.Struct, frozen=True):
    """The options of the command line. ``is_on``: served over TLS; ``/metrics`` needs a token whose user may ``get`` it
    (TokenReview, SubjectAccessReview)."""

    is_on: bool = False
    certificate: Path | None = None
    key: Path | None = None

    def problem(self) -> str:
        if (self.certificate is None) != (self.key is None):
            return "--metrics-cert and --metrics-key belong together: give both or none"
        if self.certificate is not None and not self.is_on:
            return "--metrics-cert needs --metrics-secure"
        return ""

    @property
    def files(self) -> CertificateFiles | None:
        return None if self.certificate is None or self.key is None else CertificateFiles(self.certificate, self.key)


def secure_metrics_options(command: F) -> F:
    """Adds the parameter ``secure_metrics``, a :class:`SecureMetricsOptions`, to a command."""

    @functools.wraps(command)
    def wrapper(*, metrics_secure: bool, metrics_cert: Path | None, metrics_key: Path | None, **rest: Any) -> Any:
        options = SecureMetricsOptions(metrics_secure, metrics_cert, metrics_key)
        if problem := options.problem():
            raise click.UsageError(problem)
        return command(secure_metrics=options, **rest)

    path = click.Path(exists=True, dir_okay=False, path_type=Path)
    key_text = "The key of --metrics-cert (PEM)."
    certificate_text = (
        "The certificate of --metrics-secure (PEM); a changed file is used without a restart. [default: a certificate"
        " generated at the start, which clients cannot verify]"
    )
    secure_text = (
        "Serve --metrics-listen over TLS. /metrics then needs a bearer token whose user may `get` the path /metrics; "
        "health checks need none."
    )
    result: Any = click.option("--metrics-key", type=path, metavar="FILE", help=key_text)(wrapper)
    result = click.option("--metrics-cert", type=path, metavar="FILE", help=certificate_text)(result)
    wrapped: F = click.option("--metrics-secure/--no-metrics-secure", default=False, help=secure_text)(result)
    return wrapped


class ProcessMetrics:
    """``health_registry``: the metrics and health checks that are served; the running components add theirs."""

    def __init__(self) -> None:
        self.health_registry = HealthRegistry()
        self.quota = QuotaMetrics(time.perf_counter, f"headgate-{headgate.__version__}")
        self.jobs = JobMetrics()
        self.gate_policies = GatePolicyMetrics()

    def failures_of(self, component: str) -> Callable[[BaseException], None]:
        """A callback that counts a failure of the component, which is then restarted. A component that restarts in a
        loop fails the liveness check."""
        self.health_registry.process_metrics.add_component(component)
        return functools.partial(self.health_registry.component_failed, component)

    def show_quota(self) -> None:
        """Adds these metrics to ``/metrics`` (``page`` returns the Prometheus text)."""
        self.health_registry.add_metrics_page(self.quota.page)

    def show_jobs(self) -> None:
        self.health_registry.add_metrics_page(lambda: self.jobs.page(time.time()))

    def show_gate_policies(self) -> None:
        self.health_registry.add_metrics_page(lambda: self.gate_policies.page(time.time()))


async def serve_metrics_and_health(
    health: HealthRegistry,
    address: tuple[str, int],
    stack: contextlib.AsyncExitStack,
    extra_checks: Mapping[str, Check] | None = None,
    secure: SecureMetricsOptions | None = None,
    transport: Transport | None = None,
) -> str:
    """Serves metrics and health until the stack is closed. Returns the address. May raise OSError. ``transport``: for
    the TokenReviews and SubjectAccessReviews of ``secure``; without it the metrics are served over HTTP."""
    host, port = address
    handler, shown_host = health.handler(extra_checks), f"[{host}]" if ":" in host else host
    if secure is None or not secure.is_on or transport is None:
        port = await stack.enter_async_context(serve_health(handler, host, port))
        return f"http://{shown_host}:{port}/metrics"
    serving = serve_secured_health(handler, AccessReviews(transport), secure.files, host, port)
    port = await stack.enter_async_context(serving)
    return f"https://{shown_host}:{port}/metrics"
