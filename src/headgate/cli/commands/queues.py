"""``headgate queues``: the tree of queues, their usage, and their pending pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
import msgspec

from headgate.capacity.names import QUEUES, ROOT
from headgate.cli.options.cluster_access import (
    access_or_exit,
    cluster_options,
    connect,
    exit_with_error,
    perform,
    print_table,
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


@click.command(short_help="The tree of queues: how full each is, and who waits.")
@output_option
@served_option
@cluster_options
@log_options
def command(output: str, served: tuple[str, ...], kubeconfig: str, context: str) -> None:
    """Print every queue below its parent: what it may use, what pods on nodes use of it (allocated), what was promised
    to pods without a node yet (reserved), what terminating pods still use, how many pods wait, and the share of what it
    deserves.

    It is worked out from lists of pods, queues, PodGroups and namespaces, by the engine that the scheduler uses; the
    scheduler need not run. What may not be listed is said.

    \b
    Example:
      headgate queues
      headgate queues -o json | jq '.queues[] | select(.waiting > 0)'
    """
    access = access_or_exit("queues", kubeconfig, context)
    try:
        found = asyncio.run(_survey(access, served))
    except Unreachable as problem:
        exit_with_error("queues", str(problem))
    if found.lacks(QUEUES):
        exit_with_error("queues", footer_of(found.gaps, found.revision))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(_document(found))).decode())
        return
    print_table([_COLUMNS, *(_row(found, name, depth) for name, depth in in_tree(found))])
    for key, problem_text in sorted(found.problems.items()):
        click.echo(f"{key}: {problem_text}")
    for name, count in found.strays.items() if found.knows_usage else ():
        click.echo(f"queue/{name}: does not exist; pods that name it: {count}")
    counted = "" if found.lacks(PODS) else f"; {found.pods} pods of {', '.join(served)}"
    click.echo(f"\n{footer_of(found.gaps, found.revision)}{counted}")


async def _survey(access: RESTConfig, served: tuple[str, ...]) -> QueueInspection:
    async with connect(access) as transport:
        return await perform(transport, inspect_queues(served))


def footer_of(gaps: Iterable[UnavailableResource], revision: str) -> str:
    """From when it is, and what is missing in it."""
    lines = dict.fromkeys(gap.line for gap in gaps)
    return "\n".join([*lines, f"as of revision {revision or 'unknown'}"])


def in_tree(found: QueueInspection) -> Iterator[tuple[str, int]]:
    """Queues below their parents; then those that have no place there."""
    children: dict[str, list[str]] = {}
    for name, queue in sorted(found.specs.items()):
        if name != ROOT:
            children.setdefault(queue.parent, []).append(name)
    seen: set[str] = set()
    tops = [ROOT, *(name for name, queue in sorted(found.specs.items()) if queue.parent not in found.specs)]
    for top in (*tops, *sorted(found.specs)):
        below = [(top, 0)]
        while below:
            name, depth = below.pop()
            if name not in seen:
                seen.add(name)
                yield name, depth
                below += [(child, depth + 1) for child in reversed(children.get(name, []))]


def _row(found: QueueInspection, name: str, depth: int) -> tuple[str, ...]:
    usage = found.queues.usage(name)
    amounts = map(_amounts, (usage.allocated, usage.reserved, usage.terminating))
    used = (*amounts, str(usage.waiting), f"{usage.share:.2f}")
    return (
        "  " * depth + name,
        found.specs[name].state,
        _limits(found.specs[name].capability),
        *(used if found.knows_usage else ("?",) * len(used)),
    )


def _amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {text}" for name, text in _texts(amounts).items()) or "-"


def _limits(amounts: Mapping[str, int]) -> str:
    """A limit of nothing is a limit."""
    return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in sorted(amounts.items())) or "-"


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: amount_text(name, amount) for name, amount in sorted(amounts.items()) if amount}


def _document(found: QueueInspection) -> dict[str, Any]:
    return {
        "revision": found.revision,
        "missing": found.gaps,
        "problems": dict(sorted(found.problems.items())),
        **({"strays": found.strays} if found.knows_usage else {}),
        "queues": [_fields(found, name) for name, _ in in_tree(found)],
    }


def _fields(found: QueueInspection, name: str) -> dict[str, Any]:
    queue, usage, limits = found.specs[name], found.queues.usage(name), found.queues.limits(name)
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
        **(used if found.knows_usage else {}),
    }
