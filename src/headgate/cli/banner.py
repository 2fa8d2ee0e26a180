"""What ``headgate up`` prints when it is ready: facts that are read back from the server, and no flags repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from headgate.cli.remote import perform
from headgate.client.listing import Page, Refused, list_all
from headgate.client.transport import Transport
from headgate.kube import conditions, wire_json
from headgate.kube.resource import NODES

Wire = Mapping[str, Any]
_decode: Final = wire_json.Decoder(Page[dict[str, Any]]).decode


async def nodes_line(transport: Transport, asked: int, named: Collection[str]) -> str:
    """``asked``: how many simulated nodes there are to be. ``named``: resources that are always shown."""
    found = await perform(transport, list_all(NODES.collection(), _decode))
    return f"not known: {found.text}" if isinstance(found, Refused) else describe_nodes(found.items, asked, named)


def describe_nodes(nodes: Sequence[Wire], asked: int, named: Collection[str]) -> str:
    """How many are registered and ready, and the sizes that they report."""
    ready = sum(_is_ready(each) for each in nodes)
    count = f"{len(nodes)} registered" + (f" of {asked} so far" if len(nodes) < asked else "")
    if not nodes:
        return count if asked else "none"
    sizes = Counter(_size(each, named) for each in nodes)
    if len(sizes) == 1:
        return f"{count}, {ready} ready, each with {next(iter(sizes))}"
    return f"{count}, {ready} ready: " + "; ".join(f"{number} with {size}" for size, number in sizes.most_common())


def _is_ready(node: Wire) -> bool:
    return conditions.is_true((node.get("status") or {}).get("conditions"), "Ready")


def _size(node: Wire, named: Collection[str]) -> str:
    return ", ".join(_resources((node.get("status") or {}).get("capacity") or {}, named)) or "nothing"


def _resources(capacity: Mapping[str, str], named: Collection[str]) -> Iterator[str]:
    """Those that are named first, in their order, then extended resources."""
    shown = [*(each for each in named if each in capacity), *sorted(each for each in capacity if "/" in each)]
    yield from (f"{name} {capacity[name]}" for name in dict.fromkeys(shown))
