"""``headgate explain pod NAME``: why a pod waits, in one screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Iterator
from typing import Any, Final

import click
import msgspec

from headgate.capacity.explaining import Explanation, Gate, Hold, explain
from headgate.cli.logs import log_options
from headgate.cli.queues import footer
from headgate.cli.remote import access_or_give_up, cluster_options, give_up, perform, reach
from headgate.cli.served import output_option, served_option
from headgate.client.gates.setters import find_setter
from headgate.client.kubeconfig import Access
from headgate.client.listing import ACCEPT, Refused, what_it_said
from headgate.client.transport import Request, Response, Unreachable
from headgate.control.survey import Survey, survey
from headgate.kube.gates import gate_names
from headgate.kube.resource import PODS
from headgate.kube.timestamps import human_duration, parse_time
from headgate.scheduling.pod import read_pod
from headgate.scheduling.shape import Shapes

Wire = dict[str, Any]

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403


@click.command(short_help="Why a pod waits, and what would have to happen.")
@click.argument("target", nargs=-1, required=True, metavar="pod NAME")
@click.option("-n", "--namespace", default="", metavar="NS", help="The namespace. [default: the context's]")
@output_option
@served_option
@cluster_options
@log_options
def command(
    target: tuple[str, ...], namespace: str, output: str, served: tuple[str, ...], kubeconfig: str, context: str
) -> None:
    """Say what holds a pod back, the outermost first, with numbers and names, and what would have to happen next.

    Gates of others are shown with who set them and when; its queue with what is asked for, in use and allowed, and with
    its place in line; a node with what the scheduler said. It is worked out from lists, by the engine of the
    scheduler. Without the right to list, the pod's own condition is shown, and the right that is missing.

    \b
    Example:
      headgate explain pod train-3 -n team-a
      headgate explain pod/train-3 -n team-a -o json
    """
    name = _name(target)
    access = access_or_give_up("explain", kubeconfig, context)
    where = namespace or access.namespace
    try:
        about, found = asyncio.run(_explain(access, where, name, served))
    except Unreachable as problem:
        give_up("explain", str(problem))
    if isinstance(about, Refused):
        give_up("explain", about.text)
    if output == "json":
        document = {**msgspec.to_builtins(about), "revision": found.revision if found else ""}
        document["missing"] = msgspec.to_builtins(found.gaps) if found else []
        click.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
        return
    for line in lines(about, time.time()):
        click.echo(line)
    if found is not None:
        click.echo(footer(found))


def _name(target: tuple[str, ...]) -> str:
    kind, _, name = target[0].partition("/")
    rest = target[1:] if not name else (name, *target[1:])
    if kind not in ("pod", "pods", "po") or len(rest) != 1 or not rest[0]:
        raise click.UsageError("say which pod: headgate explain pod NAME -n NAMESPACE")
    return rest[0]


async def _explain(
    access: Access, namespace: str, name: str, served: tuple[str, ...]
) -> tuple[Explanation | Refused, Survey | None]:
    async with reach(access) as transport:
        pod = await perform(transport, _get(namespace, name))
        if isinstance(pod, Refused):
            return pod, None
        gates = [_gate(pod, each) for each in gate_names(pod)]
        read = read_pod(pod, Shapes())
        if isinstance(read, str):
            return Refused(read), None
        requests = read.shape.requests
        alone = explain(pod, None, requests, gates, served)
        if alone.state != "waiting":
            return alone, None
        found = await perform(transport, survey(served))
        return explain(pod, None if found.is_blind else found.queues, requests, gates, served), found


def _get(namespace: str, name: str) -> Generator[Request, Response, Wire | Refused]:
    answer = yield Request("GET", PODS.object(namespace, name), "", ACCEPT)
    if answer.status == _NOT_FOUND:
        return Refused(f"there is no pod {name} in namespace {namespace}", answer.status)
    if answer.status == _FORBIDDEN:
        return Refused(f"missing right: get pods in namespace {namespace}: {what_it_said(answer)}", answer.status)
    if not answer.ok:
        return Refused(what_it_said(answer), answer.status)
    try:
        return _decode(answer.body)
    except msgspec.DecodeError as error:
        return Refused(f"the server sent what is not a pod: {error}")


def _gate(pod: Wire, name: str) -> Gate:
    setter = find_setter(pod.get("metadata") or {}, name)
    return Gate(name, setter.manager, setter.time)


def lines(about: Explanation, now_s: float) -> Iterator[str]:
    yield f"pod {about.namespace}/{about.name}: {about.summary}"
    asks = ", ".join(f"{name} {amount}" for name, amount in about.requests.items())
    facts = [
        f"scheduler {about.scheduler}",
        f"queue {about.queue}" if about.queue else "",
        f"group {about.group}" if about.group else "",
        f"asks for {asks}" if asks else "asks for nothing",
        "opted in" if about.opted_in else "did not opt in",
        _age(about.created, now_s, "{} old"),
    ]
    yield "  " + ", ".join(filter(None, facts))
    if about.holds:
        yield "held by"
    for hold in about.holds:
        yield from _hold_lines(hold, now_s)
    if about.next:
        yield "next"
    yield from (f"  {step}" for step in about.next)


def _hold_lines(hold: Hold, now_s: float) -> Iterator[str]:
    who = [f"set by {hold.by}" if hold.by else "", _age(hold.since, now_s, "{} ago" if hold.by else "for {}")]
    notes = ", ".join(filter(None, (hold.why, *who)))
    yield f"  {hold.kind} {hold.name}".rstrip() + (f" ({notes})" if notes else "") + f": {hold.text}"
    if hold.resource:
        yield f"    {hold.resource} in queue {hold.blocker}: asked {hold.asked}, taken {hold.used}, limit {hold.limit}"
    if hold.position is not None:
        yield f"    before it in queue {hold.name}: {hold.position}"


def _age(time_text: str, now_s: float, words: str) -> str:
    parsed = parse_time(time_text)
    return "" if isinstance(parsed, str) else words.format(human_duration(now_s - float(parsed)))
