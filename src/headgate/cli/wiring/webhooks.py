"""The webhooks of ``headgate run``: their options, the validated settings, and the service that runs the server."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click
import msgspec

from headgate.admission.settings import OWN_NAMESPACE, SERVICE_ACCOUNTS, SYSTEM_NAMESPACE, AdmissionSettings
from headgate.cli.options.address import parse_address
from headgate.cli.options.cluster_access import connect, perform
from headgate.cli.options.gate_options import gating_options
from headgate.cli.options.log_options import say
from headgate.cli.wiring.event_loop import loop_factory
from headgate.cli.wiring.shutdown import DEFAULT_DELAY, delay_seconds
from headgate.client.kubeconfig import RESTConfig
from headgate.gate_policies.names import WORKLOAD_CONTROLLERS
from headgate.http.transport import Transport
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube.feature_gates import FeatureGates
from headgate.runtime.webhooks.service import WebhookHealth, WebhookServerConfig, WebhookService, own_username
from headgate.runtime.webhooks.target import parse_service, parse_url

F = TypeVar("F", bound=Callable[..., Any])

_LISTEN: Final = "0.0.0.0:9443"
_SECRET: Final = f"{OWN_NAMESPACE}/headgate-webhooks"


class WebhookOptions(msgspec.Struct, frozen=True):
    """The options of the command line, not parsed yet."""

    url: str
    service: str
    listen: str
    secret: str
    gates_all_pods: bool
    trusted_users: tuple[str, ...]
    shutdown_delay_s: float

    def server_config(self) -> WebhookServerConfig | str:
        """The parsed options, or an error text."""
        if bool(self.url) == bool(self.service):
            return "--components webhooks needs either --webhook-url or --webhook-service, the address for API servers"
        target = parse_url(self.url) if self.url else parse_service(self.service)
        if isinstance(target, str):
            return target
        address = parse_address("--webhook-listen", self.listen, _LISTEN)
        if isinstance(address, str):
            return address
        namespace, slash, name = self.secret.partition("/")
        if not slash or not namespace or not name:
            return f"--webhook-secret {self.secret!r} is not NAMESPACE/NAME"
        return WebhookServerConfig(target, *address, (namespace, name))


def webhook_options(command: F) -> F:
    """Adds the parameter ``webhooks``, a :class:`WebhookOptions`, to a command."""

    @functools.wraps(command)
    def wrapper(
        *,
        webhook_url: str,
        webhook_service: str,
        webhook_listen: str,
        webhook_secret: str,
        gates_all_pods: bool,
        trusted_users: tuple[str, ...],
        shutdown_delay_s: float,
        **rest: Any,
    ) -> Any:
        options = WebhookOptions(
            webhook_url,
            webhook_service,
            webhook_listen,
            webhook_secret,
            gates_all_pods,
            trusted_users,
            shutdown_delay_s,
        )
        return command(webhooks=options, **rest)

    options = (
        ("--webhook-url", "", "https://HOST:PORT", "The URL for API servers, if there is no Service."),
        ("--webhook-service", "", "NS/NAME[:PORT]", "The Service through which API servers reach the webhooks."),
        ("--webhook-listen", _LISTEN, "HOST:PORT", "The address on which the webhook server listens."),
        ("--webhook-secret", _SECRET, "NS/NAME", "The Secret in which replicas share the webhooks' certificates."),
    )
    result: Any = click.option(
        "--shutdown-delay",
        "shutdown_delay_s",
        default=DEFAULT_DELAY,
        show_default=True,
        metavar="DURATION",
        callback=delay_seconds,
        help="After SIGTERM, how long webhooks are served while the replica is not ready. Ctrl-C does not wait.",
    )(wrapper)
    for name, default, metavar, text in reversed(options):
        result = click.option(name, default=default, metavar=metavar, help=text, show_default=bool(default))(result)
    wrapped: F = gating_options(result)
    return wrapped


def webhook_service(
    options: WebhookOptions,
    config: WebhookServerConfig,
    schedulers: Iterable[str],
    features: FeatureGates,
    jobs: JobSettings | None,
    rest_config: RESTConfig,
    health: WebhookHealth,
    *,
    gives_up: bool,
) -> WebhookService:
    """``jobs``: the settings of managed jobs; None if Headgate does not manage jobs. ``gives_up``: whether the process
    ends if the webhook server cannot start."""

    async def make_settings(transport: Transport) -> AdmissionSettings:
        own_user = await perform(transport, own_username())
        return admission_settings(options, config.secret[0], schedulers, features, jobs, own_user)

    return WebhookService(
        functools.partial(connect, rest_config),
        make_settings,
        config,
        say,
        health,
        gives_up=gives_up,
        loop_factory=loop_factory(),
    )


def admission_settings(
    options: WebhookOptions,
    own_namespace: str,
    schedulers: Iterable[str],
    features: FeatureGates,
    jobs: JobSettings | None,
    own_user: str,
) -> AdmissionSettings:
    """The settings of the admission handlers of one replica. ``jobs``: None if Headgate does not manage jobs.
    ``own_user``: the user name of this process; empty if it is not known."""
    return AdmissionSettings(
        schedulers=frozenset(schedulers),
        trusted_users=frozenset((*SERVICE_ACCOUNTS, *options.trusted_users, own_user)) - {""},
        gates_all_pods=options.gates_all_pods,
        exempt_namespaces=frozenset({SYSTEM_NAMESPACE, own_namespace}),
        queue_gate_enabled=features.queue_allocation_gate,
        suspends_jobs=jobs is not None,
        features=features,
        jobs=jobs or DEFAULT,
        workload_controllers=(WORKLOAD_CONTROLLERS | {own_user}) - {""},
    )
