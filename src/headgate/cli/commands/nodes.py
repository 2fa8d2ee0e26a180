"""``headgate nodes``: adds, removes, fails and labels simulated nodes while the cluster runs.

The commands write Node objects and their annotations (``nodes/annotations.py``); the hollow kubelets of the cluster
react. A node that is not simulated is never changed: each command checks all its nodes before the first write.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from headgate.cli.embedded.cluster_options import parse_sizes
from headgate.cli.options.cluster_access import cluster_options, connect, exit_with_error, perform, rest_config_or_exit
from headgate.cli.options.log_options import log_options
from headgate.cli.options.suggestions import SuggestingGroup
from headgate.client import write_requests
from headgate.client.pager import ListRefused, ListResponse, list_all, refusal_message
from headgate.client.permissions import refusal_text
from headgate.http.transport import HTTPRequest, Transport, Unreachable
from headgate.kube import conditions
from headgate.kube.api_resources import NODES
from headgate.kube.labels import parse_selector
from headgate.kube.serializer import wire_json
from headgate.kube.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from headgate.nodes.annotations import HOLLOW, KWOK_NODE, PREFIX
from headgate.nodes.behaviour import is_hollow
from headgate.nodes.node_template import NodeTemplate, make_more_nodes
from headgate.runtime.embedded_components import check_name

Object = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])

NOT_READY: Final = f"{PREFIX}not-ready"
SILENT: Final = f"{PREFIX}silent-after"
_POLL_S: Final = 0.05
_REACTION_S: Final = 15.0
_WHY_NOT_READY: Final = (
    "the annotations of the nodes say so, or no Headgate simulates them (other simulators do not read its annotations)"
)
_EFFECTS: Final = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
_PODS: Final = {"pods": "110"}
_decode: Final = wire_json.WireDecoder(ListResponse[dict[str, Any]]).decode


class NodesRefused(Exception):
    """The command cannot do its work; the text says why."""


def _node_options(command: F) -> F:
    """The nodes that a command changes: by name, by label, or all simulated ones."""
    command = cluster_options(log_options(command))
    command = click.option("--all", "all_nodes", is_flag=True, help="All simulated nodes.")(command)
    return click.option("-l", "--selector", default="", metavar="SELECTOR", help="The nodes with these labels.")(
        command
    )


@click.group(cls=SuggestingGroup, short_help="Add, remove, fail and label simulated nodes.")
@log_options
def command() -> None:
    """Change the simulated nodes of a cluster while it runs. On KWOK's nodes, add, remove and label work.

    Nodes that are not simulated are never changed; a command that names one is refused before its first write.

    \b
    Example:
      headgate nodes add --count 2 --cpu 64 --resource nvidia.com/gpu=8 --label pool=gpu
      headgate nodes fail node-0001
      headgate nodes recover --all
      headgate nodes remove -l pool=gpu
    """


@command.command("add", short_help="Add simulated nodes.")
@click.option("--count", type=click.IntRange(1, 10_000), default=1, show_default=True, help="How many nodes.")
@click.option("--cpu", default="8", show_default=True, metavar="QUANTITY", help="CPU of each node.")
@click.option("--memory", default="32Gi", show_default=True, metavar="QUANTITY", help="Memory of each node.")
@click.option(
    "--resource", "extra", multiple=True, metavar="NAME=QUANTITY", help="A further resource. May be repeated."
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label. May be repeated.")
@click.option(
    "--annotation", "annotations", multiple=True, metavar="KEY=VALUE", help="Such as headgate.dev/boot-after=20s."
)
@click.option("--taint", "taint_texts", multiple=True, metavar="KEY=VALUE:EFFECT", help="A taint. May be repeated.")
@click.option("--zone", "zones", multiple=True, metavar="ZONE", help="With several zones, the nodes take them in turn.")
@click.option("--prefix", default="node-", show_default=True, metavar="TEXT", help="Names are the prefix and a number.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until the nodes are Ready; 0 does not wait.",
)
@cluster_options
@log_options
def add_nodes(
    count: int,
    cpu: str,
    memory: str,
    extra: tuple[str, ...],
    labels: tuple[str, ...],
    annotations: tuple[str, ...],
    taint_texts: tuple[str, ...],
    zones: tuple[str, ...],
    prefix: str,
    wait_s: float,
    kubeconfig: str,
    context: str,
) -> None:
    """Add simulated nodes. Their numbers go on after the highest one with the same prefix.

    \b
    Example:
      headgate nodes add
      headgate nodes add --count 4 --cpu 96 --memory 1Ti --resource nvidia.com/gpu=8 --zone a --zone b
      headgate nodes add --prefix spot- --annotation headgate.dev/killed-after=10m
    """
    sizes = parse_sizes({"cpu": cpu, "memory": memory}, extra)
    if isinstance(sizes, str):
        raise click.UsageError(sizes.replace("--node-", "--"))
    template = NodeTemplate(
        resources={**_PODS, **sizes},
        labels=_pairs("--label", labels),
        annotations=_pairs("--annotation", annotations),
        taints=[_taint(text) for text in taint_texts],
        zones=zones,
        prefix=prefix,
    )

    async def add(transport: Transport) -> list[str]:
        existing = await list_nodes(transport)
        await check_simulated(transport, existing)
        try:
            made = make_more_nodes(count, template, existing)
        except ValueError as problem:
            raise NodesRefused(str(problem)) from problem
        for node in made:
            await _write(transport, "create", write_requests.create(NODES, "", node))
            click.echo(f"node/{node['metadata']['name']} added")
        return await _without(transport, [node["metadata"]["name"] for node in made], "True", wait_s)

    missing = _run("add", kubeconfig, context, add)
    if missing:
        exit_with_error("nodes add", f"{_some(missing)} did not become Ready in {wait_s:g} s: {_WHY_NOT_READY}")


@command.command("remove", short_help="Delete simulated nodes.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_node_options
def remove_nodes(names: tuple[str, ...], selector: str, all_nodes: bool, kubeconfig: str, context: str) -> None:
    """Delete simulated nodes, as a cloud deletes machines. The controllers then delete their pods.

    A node that `headgate up --nodes` creates appears again at the next start of the cluster.

    \b
    Example:
      headgate nodes remove node-0004
      headgate nodes remove -l pool=gpu
    """

    def deletion(node: Object) -> HTTPRequest:
        return write_requests.delete(NODES, "", node["metadata"]["name"], node["metadata"]["uid"])

    _change("remove", "delete", "removed", names, selector, all_nodes, kubeconfig, context, deletion)


@command.command("fail", short_help="Make simulated nodes fail.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--silent", is_flag=True, help="The kubelet stops reporting, as on a machine that lost its power.")
@_node_options
def fail_nodes(
    names: tuple[str, ...], silent: bool, selector: str, all_nodes: bool, kubeconfig: str, context: str
) -> None:
    """Make simulated nodes fail until headgate nodes recover.

    The kubelets report at once that their nodes are not ready. With --silent they report nothing any more, and the
    nodes become Unknown after --node-monitor-grace-period of headgate up (50 s). In both cases the controllers then
    taint the nodes and evict their pods, as they do on any cluster.

    \b
    Example:
      headgate nodes fail node-0001 node-0002
      headgate nodes fail -l topology.kubernetes.io/zone=a --silent
    """
    annotations = {SILENT: "0s"} if silent else {NOT_READY: "true"}
    done, expected = ("is silent", "") if silent else ("failed", "False")
    _change("fail", "patch", done, names, selector, all_nodes, kubeconfig, context, _annotate(annotations), expected)


@command.command("recover", short_help="Make simulated nodes Ready again.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_node_options
def recover_nodes(names: tuple[str, ...], selector: str, all_nodes: bool, kubeconfig: str, context: str) -> None:
    """Undo headgate nodes fail: the kubelets report again that their nodes are ready.

    \b
    Example:
      headgate nodes recover node-0001
      headgate nodes recover --all
    """
    changes = _annotate({SILENT: None, NOT_READY: None})
    _change("recover", "patch", "recovered", names, selector, all_nodes, kubeconfig, context, changes, "True")


@command.command("label", short_help="Set and remove labels of simulated nodes.")
@click.argument("words", nargs=-1, required=True, metavar="[NAME]... KEY=VALUE|KEY-...")
@_node_options
def label_nodes(words: tuple[str, ...], selector: str, all_nodes: bool, kubeconfig: str, context: str) -> None:
    """Set labels (KEY=VALUE) and remove labels (KEY-) of simulated nodes.

    \b
    Example:
      headgate nodes label node-0001 pool=gpu
      headgate nodes label --all pool-
    """
    names = tuple(each for each in words if "=" not in each and not each.endswith("-"))
    labels: dict[str, str | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            labels[key] = value
        elif word.endswith("-"):
            labels[word[:-1]] = None
    if not labels:
        raise click.UsageError("name a label: KEY=VALUE sets it, KEY- removes it")

    def patch(node: Object) -> HTTPRequest:
        metadata = node["metadata"]
        return write_requests.patch(NODES, "", metadata["name"], metadata["uid"], {"metadata": {"labels": labels}})

    _change("label", "patch", "labelled", names, selector, all_nodes, kubeconfig, context, patch)


# -- steps of the commands -----------------------------------------------------------------------------------------


def _annotate(annotations: Mapping[str, str | None]) -> Callable[[Object], HTTPRequest]:
    def patch(node: Object) -> HTTPRequest:
        metadata, body = node["metadata"], {"metadata": {"annotations": dict(annotations)}}
        return write_requests.patch(NODES, "", metadata["name"], metadata["uid"], body)

    return patch


def _change(
    name: str,
    verb: str,
    done: str,
    names: tuple[str, ...],
    selector: str,
    all_nodes: bool,
    kubeconfig: str,
    context: str,
    request_for: Callable[[Object], HTTPRequest],
    expected: str = "",
) -> None:
    """``verb``: the right that it takes. ``done``: what is printed of each node. ``expected``: the status of the Ready
    condition that the kubelets then report; empty if the command does not wait for it."""
    if bool(names) + bool(selector) + all_nodes != 1:
        raise click.UsageError("select the nodes: pass NAMEs, -l SELECTOR, or --all")
    parsed = parse_selector(selector)
    if isinstance(parsed, str):
        raise click.BadParameter(parsed, param_hint="-l")

    async def change(transport: Transport) -> list[str]:
        problems: list[str] = []
        changed: list[str] = []
        for node in _select(await list_nodes(transport, selector), names, only_hollow=all_nodes):
            try:
                await _write(transport, verb, request_for(node))
            except NodesRefused as problem:
                problems.append(f"node {node['metadata']['name']}: {problem}")
            else:
                changed.append(node["metadata"]["name"])
                click.echo(f"node/{changed[-1]} {done}")
        late = await _without(transport, changed, expected, _REACTION_S) if expected else []
        if late:
            state = "Ready" if expected == "True" else "NotReady"
            problems.append(f"{_some(late)} did not become {state} in {_REACTION_S:g} s: {_WHY_NOT_READY}")
        return problems

    problems = _run(name, kubeconfig, context, change)
    for problem in problems:
        click.echo(f"headgate nodes {name}: {problem}", err=True)
    if problems:
        sys.exit(1)


def _select(nodes: Sequence[Object], names: tuple[str, ...], *, only_hollow: bool) -> list[Object]:
    if only_hollow:
        nodes = [each for each in nodes if is_hollow(each)]
    by_name = {each["metadata"]["name"]: each for each in nodes}
    unknown = [each for each in names if each not in by_name]
    if unknown:
        raise NodesRefused(f"there is no node {', '.join(unknown)}; nothing was changed")
    chosen = [by_name[each] for each in dict.fromkeys(names)] if names else list(nodes)
    if not chosen:
        raise NodesRefused("no simulated node was selected")
    real = [each["metadata"]["name"] for each in chosen if not is_hollow(each)]
    if real:
        raise NodesRefused(
            f"{_some(real)} {'is' if len(real) == 1 else 'are'} not simulated, and nothing was changed. Simulated "
            f"nodes have the label {HOLLOW}=true, or the annotation {KWOK_NODE}=fake"
        )
    return chosen


async def check_simulated(transport: Transport, nodes: Sequence[Object]) -> None:
    """Raises ``NodesRefused`` if nothing simulates nodes: pods would be bound to a new Node and never run."""
    if any(map(is_hollow, nodes)):
        return
    response = await transport.request(HTTPRequest("GET", "/readyz", "verbose", {"accept": "*/*"}))
    if f"[+]{check_name('nodes')} ok".encode() in response.body:
        return
    found = (
        f"its nodes ({_some([each['metadata']['name'] for each in nodes])}) are real" if nodes else "it has no nodes"
    )
    raise NodesRefused(
        f"no process simulates nodes in this cluster: {found}, and it was not started by `headgate up` with the "
        "component nodes. Nothing was changed"
    )


async def _without(transport: Transport, names: Iterable[str], expected: str, wait_s: float) -> list[str]:
    """Those of the nodes whose Ready condition has another status when the time is over. A node that is gone counts as
    one of them."""
    loop = asyncio.get_running_loop()
    until_s, waiting = loop.time() + wait_s, set(names)
    while waiting and wait_s:
        for node in await list_nodes(transport):
            if conditions.has_status((node.get("status") or {}).get("conditions"), "Ready", expected):
                waiting.discard(node["metadata"]["name"])
        if not waiting or loop.time() >= until_s:
            break
        await asyncio.sleep(_POLL_S)
    return sorted(waiting) if wait_s else []


async def list_nodes(transport: Transport, selector: str = "") -> list[Object]:
    query = {"labelSelector": selector} if selector else {}
    listed = await perform(transport, list_all(NODES.collection_path(), _decode, query))
    if isinstance(listed, ListRefused):
        raise NodesRefused(refusal_text("list", NODES, None, listed))
    return listed.items


async def _write(transport: Transport, verb: str, request: HTTPRequest) -> None:
    response = await transport.request(request)
    if not response.ok:
        refused = ListRefused(refusal_message(response), response.status)
        raise NodesRefused(refusal_text(verb, NODES, None, refused))


def _run(
    name: str, kubeconfig: str, context: str, steps: Callable[[Transport], Coroutine[Any, Any, list[str]]]
) -> list[str]:
    rest_config = rest_config_or_exit(f"nodes {name}", kubeconfig, context)

    async def run() -> list[str]:
        async with connect(rest_config) as transport:
            return await steps(transport)

    try:
        return asyncio.run(run())
    except (NodesRefused, Unreachable) as problem:
        exit_with_error(f"nodes {name}", str(problem))
    except KeyboardInterrupt:
        exit_with_error(f"nodes {name}", "interrupted; the nodes that were printed are changed")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{option} {text!r} is not KEY=VALUE")
        found[key] = value
    return found


def _taint(text: str) -> Object:
    rest, colon, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    if not colon or not key or effect not in _EFFECTS:
        raise click.UsageError(f"--taint {text!r} is not KEY=VALUE:EFFECT; the effects are {', '.join(_EFFECTS)}")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})
