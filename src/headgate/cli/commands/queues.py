"""``headgate queues``: the tree of queues, their usage, and their pending pods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
import msgspec

from headgate.capacity.names import QUEUES, ROOT
from headgate.cli.options.cluster_access import (
    cluster_options,
    connect,
    exit_with_error,
    perform,
    print_table,
    rest_config_or_exit,
)
from headgate.cli.options.log_options import log_options
from headgate.cli.options.query_options import output_option, served_option
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import Unreachable
from headgate.kube.api_resources import PODS
from headgate.kube.resource_amounts import amount_text
from headgate.runtime.inspection.queues import QueueInspection, inspect_queues
from headgate.runtime.inspection.unavailable import UnavailableResource

_COLUMNS = ("NAME", "STATE", "CAPABILITY", "ALLOCATED", "RESERVED", "TERMINATING", "WAITING", "SHARE")


@click.command(short_help="Show the tree of queues: how full each is, and how many pods wait.")
@output_option
@served_option
@cluster_options
@log_options
def command(output: str, served: tuple[str, ...], gated: tuple[str, ...], kubeconfig: str, context: str) -> None:
    """Print every queue below its parent: what it may use, what pods on nodes use of it (allocated), what was promised
    to pods without a node yet (reserved), what terminating pods still use, how many pods wait, and the share of what it
    deserves.

    It is computed from lists of pods, queues, PodGroups and namespaces, by the engine that the scheduler uses; the
    scheduler need not run. Lists that are not allowed are named.

    \b
    Example:
      headgate queues
      headgate queues -o json | jq '.queues[] | select(.waiting > 0)'
    """
    rest_config = rest_config_or_exit("queues", kubeconfig, context)
    try:
        inspection = asyncio.run(_inspect(rest_config, served, gated))
    except Unreachable as problem:
        exit_with_error("queues", str(problem))
    if inspection.lacks(QUEUES):
        exit_with_error("queues", describe_unavailable(inspection.unavailable, inspection.revision))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(_document(inspection))).decode())
        return
    print_table([_COLUMNS, *(_row(inspection, name, depth) for name, depth in in_tree(inspection))])
    for key, problem_text in sorted(inspection.problems.items()):
        click.echo(f"{key}: {problem_text}")
    for name, count in inspection.pods_of_missing_queues.items() if inspection.knows_usage else ():
        click.echo(f"queue/{name}: does not exist; pods that name it: {count}")
    counted = "" if inspection.lacks(PODS) else f"; {inspection.pods} pods of {', '.join((*served, *gated))}"
    click.echo(f"\n{describe_unavailable(inspection.unavailable, inspection.revision)}{counted}")


async def _inspect(rest_config: RESTConfig, served: tuple[str, ...], gated: tuple[str, ...]) -> QueueInspection:
    async with connect(rest_config) as transport:
        return await perform(transport, inspect_queues(served, gated, time.time()))


def describe_unavailable(unavailable: Iterable[UnavailableResource], revision: str) -> str:
    """What could not be listed, and the resourceVersion of the lists."""
    lines = dict.fromkeys(resource.line for resource in unavailable)
    return "\n".join([*lines, f"as of resourceVersion {revision or 'unknown'}"])


def in_tree(inspection: QueueInspection) -> Iterator[tuple[str, int]]:
    """Queues below their parents, then queues without a valid parent. Yields name and depth."""
    children: dict[str, list[str]] = {}
    for name, queue in sorted(inspection.specs.items()):
        if name != ROOT:
            children.setdefault(queue.parent, []).append(name)
    seen: set[str] = set()
    roots = [ROOT, *(name for name, queue in sorted(inspection.specs.items()) if queue.parent not in inspection.specs)]
    for root in (*roots, *sorted(inspection.specs)):
        stack = [(root, 0)]
        while stack:
            name, depth = stack.pop()
            if name not in seen:
                seen.add(name)
                yield name, depth
                stack += [(child, depth + 1) for child in reversed(children.get(name, []))]


def _row(inspection: QueueInspection, name: str, depth: int) -> tuple[str, ...]:
    usage = inspection.queues.usage(name)
    amounts = map(_amounts, (usage.allocated, usage.reserved, usage.terminating))
    used = (*amounts, str(usage.waiting), f"{usage.share:.2f}")
    return (
        "  " * depth + name,
        inspection.specs[name].state,
        _limits(inspection.specs[name].capability),
        *(used if inspection.knows_usage else ("?",) * len(used)),
    )


def _amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {text}" for name, text in _texts(amounts).items()) or "-"


def _limits(amounts: Mapping[str, int]) -> str:
    """Limits of 0 are included."""
    return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in sorted(amounts.items())) or "-"


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: amount_text(name, amount) for name, amount in sorted(amounts.items()) if amount}


def _document(inspection: QueueInspection) -> dict[str, Any]:
    return {
        "revision": inspection.revision,
        "missing": inspection.unavailable,
        "problems": dict(sorted(inspection.problems.items())),
        **({"strays": inspection.pods_of_missing_queues} if inspection.knows_usage else {}),
        "queues": [_fields(inspection, name) for name, _ in in_tree(inspection)],
    }


def _fields(inspection: QueueInspection, name: str) -> dict[str, Any]:
    queue, usage, limits = inspection.specs[name], inspection.queues.usage(name), inspection.queues.limits(name)
    used = {
        "allocated": _texts(usage.allocated),
        "reserved": _texts(usage.reserved),
        "terminating": _texts(usage.terminating),
        "inqueue": _texts(usage.inqueue),
        "waiting": usage.waiting,
        "share": round(usage.share, 4),
    }
    return {
        "name": name,
        "parent": queue.parent,
        "state": queue.state,
        "priority": queue.priority,
        "capability": {name: amount_text(name, amount) for name, amount in sorted(queue.capability.items())},
        "limits": {name: amount_text(name, amount) for name, amount in sorted(limits.capability.items())},
        "deserved": _texts(limits.deserved),
        "guarantee": _texts(limits.guarantee),
        **(used if inspection.knows_usage else {}),
    }
