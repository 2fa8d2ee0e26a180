"""The webhooks of ``headgate run``: their options, the validated settings, and the server."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click
import msgspec

from headgate.admission.policy import OWN_NAMESPACE, SERVICE_ACCOUNTS, SYSTEM_NAMESPACE, AdmissionPolicy
from headgate.cli.options.address import parse_address
from headgate.cli.options.cluster_access import perform
from headgate.cli.options.gate_options import gating_options
from headgate.http.transport import Transport
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube.feature_gates import FeatureGates
from headgate.runtime.webhooks.registrar import WebhookSetupError
from headgate.runtime.webhooks.service import WebhookHealth, WebhookServerConfig, own_username, serve
from headgate.runtime.webhooks.target import parse_service, parse_url

F = TypeVar("F", bound=Callable[..., Any])

_LISTEN: Final = "0.0.0.0:9443"
_SECRET: Final = f"{OWN_NAMESPACE}/headgate-webhooks"


class WebhookOptions(msgspec.Struct, frozen=True):
    """The options as given."""

    url: str
    service: str
    listen: str
    secret: str
    gates_all: bool
    trusted_users: tuple[str, ...]

    def server_config(self) -> WebhookServerConfig | str:
        """The parsed options, or a message."""
        if bool(self.url) == bool(self.service):
            return "--components webhooks needs either --webhook-url or --webhook-service: where API servers find it"
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
    """The command gets ``webhooks``, a :class:`WebhookOptions`."""

    @functools.wraps(command)
    def wrapper(
        *,
        webhook_url: str,
        webhook_service: str,
        webhook_listen: str,
        webhook_secret: str,
        gates_all: bool,
        trusted_users: tuple[str, ...],
        **rest: Any,
    ) -> Any:
        options = WebhookOptions(webhook_url, webhook_service, webhook_listen, webhook_secret, gates_all, trusted_users)
        return command(webhooks=options, **rest)

    options = (
        ("--webhook-url", "", "https://HOST:PORT", "Where API servers reach the webhooks, if not by a Service."),
        ("--webhook-service", "", "NS/NAME[:PORT]", "The Service that leads API servers to the webhooks."),
        ("--webhook-listen", _LISTEN, "HOST:PORT", "Where the webhooks listen."),
        ("--webhook-secret", _SECRET, "NS/NAME", "The Secret in which replicas share the webhooks' certificates."),
    )
    result: Any = wrapper
    for name, default, metavar, text in reversed(options):
        result = click.option(name, default=default, metavar=metavar, help=text, show_default=bool(default))(result)
    wrapped: F = gating_options(result)
    return wrapped


async def run_webhooks(
    options: WebhookOptions,
    config: WebhookServerConfig,
    schedulers: Iterable[str],
    features: FeatureGates,
    jobs: JobSettings | None,
    transport: Transport,
    health: WebhookHealth,
) -> str:
    """Runs until it is cancelled. Returns why it could not start. ``jobs``: settings of managed jobs; None: jobs are
    not managed."""
    policy = AdmissionPolicy(
        schedulers=frozenset(schedulers),
        trusted=frozenset((*SERVICE_ACCOUNTS, *options.trusted_users, await perform(transport, own_username()))) - {""},
        gates_all=options.gates_all,
        exempt=frozenset({SYSTEM_NAMESPACE, config.secret[0]}),
        gates=features.queue_allocation_gate,
        suspends_jobs=jobs is not None,
        features=features,
        jobs=jobs or DEFAULT,
    )
    try:
        await serve(transport, policy, config, click.echo, health)
    except WebhookSetupError as problem:
        return f"the webhooks cannot begin: {problem}"
    except OSError as error:
        return f"cannot listen on {config.host}:{config.port}: {error.strerror}; check --webhook-listen"
    return ""
