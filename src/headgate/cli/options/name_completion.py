"""Shell completion of arguments: kinds, and names of objects that the cluster has.

The names are read with the kubeconfig and the namespace of the command line, within a short time and one page. If that
fails, nothing is completed: a shell has no place for errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import click
import msgspec
from click.shell_completion import CompletionItem

from headgate.capacity.names import QUEUES
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.http.transport import HTTPRequest, Unreachable, encode_query
from headgate.kube.api_resources import DEPLOYMENTS, JOBS, NODES, PODS, APIResource
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_TIMEOUT_S: Final = 2.0
_MAX_NAMES: Final = 500
_PARTIAL: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
COMPLETED_KINDS: Final[Mapping[str, APIResource]] = {
    "pod": PODS,
    "job": JOBS,
    "deployment": DEPLOYMENTS,
    "workload": WORKLOADS,
    "queue": QUEUES,
    "clusterqueue": CLUSTER_QUEUES,
    "localqueue": LOCAL_QUEUES,
    "node": NODES,
}
"""The kinds whose names are completed."""


class _Metadata(msgspec.Struct):
    name: str


class _Item(msgspec.Struct):
    metadata: _Metadata


class _List(msgspec.Struct):
    items: list[_Item] = []


def complete_target(kinds: Iterable[str]) -> Complete:
    """For the argument ``KIND NAME``: the kind first, then a name of that kind."""
    offered = tuple(kinds)

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        typed = ctx.params.get(param.name or "") or ()
        kind, slash, start = incomplete.partition("/")
        if slash and not typed:
            return [CompletionItem(f"{kind}/{name}") for name in _names(ctx, kind, start)]
        if not typed:
            return [CompletionItem(each) for each in offered if each.startswith(incomplete)]
        return [CompletionItem(name) for name in _names(ctx, str(typed[0]), incomplete)] if len(typed) == 1 else []

    return complete


def complete_name(kind: str) -> Complete:
    """For an argument or an option that is the name of one kind."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in _names(ctx, kind, incomplete)]

    return complete


def complete_values(values: Iterable[str]) -> Complete:
    offered = tuple(values)

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(each) for each in offered if each.startswith(incomplete)]

    return complete


def _names(ctx: click.Context, kind: str, start: str) -> list[str]:
    resource = COMPLETED_KINDS.get(kind.lower())
    if resource is None:
        return []
    given: Mapping[str, Any] = ctx.params
    try:
        return asyncio.run(
            asyncio.wait_for(
                _read_names(
                    resource,
                    str(given.get("kubeconfig") or ""),
                    str(given.get("context") or ""),
                    str(given.get("namespace") or ""),
                    start,
                ),
                _TIMEOUT_S,
            )
        )
    except (TimeoutError, Unreachable, OSError, ValueError, msgspec.DecodeError):
        return []


async def _read_names(resource: APIResource, kubeconfig: str, context: str, namespace: str, start: str) -> list[str]:
    found = find_rest_config(kubeconfig, context)
    if isinstance(found, str):
        return []
    path = resource.collection_path(namespace or found.namespace)
    transport = HTTPTransport(found)
    try:
        query = encode_query({"limit": str(_MAX_NAMES)})
        request = HTTPRequest("GET", path, query, {"accept": _PARTIAL}, timeout_s=_TIMEOUT_S)
        response = await transport.request(request)
    finally:
        await transport.close()
    if not response.ok:
        return []
    names = [each.metadata.name for each in msgspec.json.decode(response.body, type=_List).items]
    return sorted(name for name in names if name.startswith(start))
