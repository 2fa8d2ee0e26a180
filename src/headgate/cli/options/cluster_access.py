"""Commands that talk to a cluster: the options that select it, and the connection."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, Final, NoReturn, TypeVar

import click

from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.io.patient_transport import PatientTransport
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport
from headgate.terminal.safe_text import printable

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
INTERRUPTED: Final = "interrupted; run the command again: it continues where it stopped"
"""Of a command whose steps may be repeated."""


def cluster_options(command: F) -> F:
    command = click.option("--context", default="", metavar="NAME", help="Which context of the kubeconfig to use.")(
        command
    )
    return click.option(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="The kubeconfig. [default: $KUBECONFIG, ~/.kube/config, or the service account of this pod]",
    )(command)


def namespace_options(command: F) -> F:
    command = click.option("-A", "--all-namespaces", "all_namespaces", is_flag=True, help="In all namespaces.")(command)
    return click.option("-n", "--namespace", default="", metavar="NS", help="The namespace. [default: the context's]")(
        command
    )


def chosen_namespace(rest_config: RESTConfig, namespace: str, all_namespaces: bool) -> str:
    """The namespace; empty for all namespaces."""
    if namespace and all_namespaces:
        raise click.UsageError("-n and -A exclude each other")
    return "" if all_namespaces else namespace or rest_config.namespace


def exit_with_error(command: str, text: str) -> NoReturn:
    click.echo(printable(f"headgate {command}: {text}"), err=True)
    sys.exit(1)


def rest_config_or_exit(command: str, kubeconfig: str, context: str) -> RESTConfig:
    found = find_rest_config(kubeconfig, context)
    if isinstance(found, str):
        exit_with_error(command, found)
    return found


@contextlib.asynccontextmanager
async def connect(rest_config: RESTConfig) -> AsyncIterator[Transport]:
    """For a command that ends; a component uses :func:`connect_component`."""
    async with connect_component(rest_config) as transport:
        yield PatientTransport(transport)


@contextlib.asynccontextmanager
async def connect_component(rest_config: RESTConfig) -> AsyncIterator[Transport]:
    transport = HTTPTransport(rest_config)
    try:
        yield transport
    finally:
        await transport.close()


async def perform(transport: Transport, steps: Generator[HTTPRequest, HTTPResponse, R]) -> R:
    """Sends the requests of a generator, and returns its result."""
    try:
        request = next(steps)
        while True:
            request = steps.send(await transport.request(request))
    except StopIteration as done:
        result: R = done.value
        return result
