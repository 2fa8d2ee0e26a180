"""``headgate doctor``: everything that is wrong with gates, queues, webhooks, rights, clocks, Leases and deletions."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from email.utils import parsedate_to_datetime
from typing import Final

import click

from headgate.cli.options.cluster_access import cluster_options, connect, exit_with_error, perform, rest_config_or_exit
from headgate.cli.options.listing import document_text
from headgate.cli.options.log_options import log_options
from headgate.cli.options.query_options import output_option, served_option
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import HTTPRequest, Transport, Unreachable
from headgate.runtime.inspection.cluster_checks import check_cluster
from headgate.runtime.inspection.diagnosis import Diagnosis

_FOUND: Final = 1
_ORDER: Final = {"error": 0, "warning": 1, "info": 2}
_SHOWN: Final = 8
"""How many findings of one check and severity are printed; -o json has all."""


@click.command(short_help="Say what is wrong with gates, queues, webhooks, rights, clocks and Leases, with the fix.")
@output_option
@served_option
@cluster_options
@log_options
def command(output: str, served: tuple[str, ...], gated: tuple[str, ...], kubeconfig: str, context: str) -> None:
    """Say everything that is wrong with the cluster, on one screen, each with the command that fixes it or shows more.

    \b
    queues     invalid, closed or missing queues that pods wait for; pods and PodGroups that are not valid
    quota      inactive ClusterQueues and why; LocalQueues without a ClusterQueue; Workloads without a LocalQueue
    gates      gates whose owner does not work, or that hold pods for more than an hour; queue gates without opt-in
    webhooks   configurations whose backend is gone, and what their failurePolicy then does
    leases     schedulers and controllers of queues that do not renew their Lease
    clocks     the Date of the API server against the clock of this machine
    deletions  queues, Workloads, pods and namespaces that have waited for finalizers for more than two minutes
    rights     lists that this user may not read, so that something was not checked

    Nothing is changed. The exit code is 0 if nothing is wrong, and 1 if there is an error or a warning.

    \b
    Example:
      headgate doctor
      headgate doctor -o json | jq '.findings[] | select(.severity == "error")'
    """
    rest_config = rest_config_or_exit("doctor", kubeconfig, context)
    try:
        found = asyncio.run(_check(rest_config, served, gated))
    except Unreachable as problem:
        exit_with_error("doctor", str(problem))
    found.sort(key=lambda each: (_ORDER[each.severity], each.check, each.subject))
    is_wrong = any(each.severity != "info" for each in found)
    if output != "text":
        click.echo(document_text({"ok": not is_wrong, "findings": found}, output))
    else:
        click.echo("\n".join(_lines(found)))
    sys.exit(_FOUND if is_wrong else 0)


async def _check(rest_config: RESTConfig, served: tuple[str, ...], gated: tuple[str, ...]) -> list[Diagnosis]:
    async with connect(rest_config) as transport:
        skew_s = await _clock_skew_s(transport)
        return await perform(transport, check_cluster(served, gated, time.time(), skew_s))


async def _clock_skew_s(transport: Transport) -> float:
    """By how much the clock of the API server is ahead of the local clock, at least: a Date header has whole seconds,
    and the response took some time."""
    before_s = time.time()
    response = await transport.request(HTTPRequest("GET", "/version", "", {"accept": "application/json"}))
    after_s = time.time()
    try:
        server_s = parsedate_to_datetime(response.headers.get("date", "")).timestamp()
    except (ValueError, TypeError):
        return 0.0
    if server_s > after_s:
        return server_s - after_s
    return min(server_s + 1.0 - before_s, 0.0)


def _lines(found: Sequence[Diagnosis]) -> Iterator[str]:
    if not found:
        yield "nothing is wrong: queues, quota, gates, webhooks, Leases, clocks and deletions were checked"
        return
    counts = {each: sum(one.severity == each for one in found) for each in _ORDER}
    shown: dict[tuple[str, str], int] = {}
    for each in found:
        key = each.severity, each.check
        shown[key] = shown.get(key, 0) + 1
        if shown[key] > _SHOWN:
            continue
        yield f"{each.severity.upper():8}{each.check:10}{each.subject}: {each.text}"
        if each.fix:
            yield f"{'':18}fix: {each.fix}"
    for (severity, check), count in shown.items():
        if count > _SHOWN:
            yield f"{severity.upper():8}{check:10}and {count - _SHOWN} more; -o json prints all"
    yield ", ".join(
        f"{count} {severity}s" if count != 1 else f"1 {severity}" for severity, count in counts.items() if count
    )
