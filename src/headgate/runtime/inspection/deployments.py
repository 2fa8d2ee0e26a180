"""The reads that explain a Deployment: its pods, through its ReplicaSets, grouped by what they wait for.

A generator that yields requests and is sent responses. The pods of one group wait for the same; ``cli`` explains the
oldest of each group as ``headgate explain pod`` does.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.client.pager import ListRefused, ListResponse, list_all
from headgate.client.permissions import refusal_text
from headgate.controllers.ownership.pods import is_finished
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube import conditions
from headgate.kube.api_resources import DEPLOYMENTS, PODS, REPLICA_SETS, APIResource
from headgate.kube.object_meta import controller_of
from headgate.kube.scheduling_gates import gate_names
from headgate.kube.serializer import wire_json
from headgate.runtime.inspection.object_reads import get_object

Wire = dict[str, Any]

_decode: Final = wire_json.WireDecoder(ListResponse[Wire]).decode
_REPORTED: Final = ("ReplicaFailure", "Progressing")


class WaitingPodGroup(msgspec.Struct, frozen=True):
    """Pods without a node that wait for the same. ``gates``: their scheduling gates; ``reason`` and ``message``: of
    their condition PodScheduled."""

    pods: tuple[str, ...]
    gates: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""


class DeploymentInspection(msgspec.Struct, frozen=True, omit_defaults=True):
    """``placed``: pods on nodes; ``waiting``: groups of pods without a node, the largest first. ``facts``: what keeps
    the Deployment itself from creating pods."""

    namespace: str
    name: str
    summary: str
    created: str
    wanted: int
    pods: int
    placed: int
    ready: int
    waiting: tuple[WaitingPodGroup, ...] = ()
    facts: tuple[str, ...] = ()


def inspect_deployment(
    namespace: str, name: str
) -> Generator[HTTPRequest, HTTPResponse, DeploymentInspection | ListRefused]:
    deployment = yield from get_object(DEPLOYMENTS, "Deployment", namespace, name)
    if isinstance(deployment, ListRefused):
        return deployment
    uid = deployment["metadata"].get("uid")
    replica_sets = yield from _list(REPLICA_SETS, namespace)
    if isinstance(replica_sets, ListRefused):
        return replica_sets
    sets = {each["metadata"].get("uid") for each in replica_sets if _owner_uid(each) == uid}
    pods = yield from _list(PODS, namespace)
    if isinstance(pods, ListRefused):
        return pods
    own = [each for each in pods if _owner_uid(each) in sets and not is_finished(each)]
    return describe_deployment(deployment, own)


def _list(resource: APIResource, namespace: str) -> Generator[HTTPRequest, HTTPResponse, list[Wire] | ListRefused]:
    listed = yield from list_all(resource.collection_path(namespace), _decode)
    if isinstance(listed, ListRefused):
        return ListRefused(refusal_text("list", resource, namespace, listed), listed.status)
    return listed.items


def _owner_uid(obj: Wire) -> str | None:
    owner = controller_of(obj)
    return None if owner is None else str(owner.get("uid"))


def describe_deployment(deployment: Wire, pods: Iterable[Wire]) -> DeploymentInspection:
    """``pods``: those of its ReplicaSets that have not ended."""
    metadata, spec = deployment["metadata"], deployment.get("spec") or {}
    alive = [each for each in pods if not each["metadata"].get("deletionTimestamp")]
    wanted = int(1 if spec.get("replicas") is None else spec["replicas"])
    placed = [each for each in alive if (each.get("spec") or {}).get("nodeName")]
    ready = [each for each in placed if conditions.is_true(_conditions(each), "Ready")]
    waiting = tuple(_groups(each for each in alive if not (each.get("spec") or {}).get("nodeName")))
    facts = tuple(_facts(deployment, spec))
    waits = len(alive) - len(placed)
    if wanted == 0:
        summary = "it wants no pods: spec.replicas is 0"
    elif waits:
        summary = f"{waits} of its {len(alive)} pods have no node; {len(ready)} of {wanted} wanted pods are ready"
    elif len(alive) < wanted:
        summary = f"it has {len(alive)} pods and wants {wanted}; {len(ready)} are ready"
    elif len(ready) < wanted:
        summary = f"all its pods have nodes; {len(ready)} of {wanted} are ready"
    else:
        summary = f"all {wanted} pods are ready: nothing holds it"
    return DeploymentInspection(
        metadata.get("namespace", ""),
        metadata["name"],
        summary,
        metadata.get("creationTimestamp") or "",
        wanted,
        len(alive),
        len(placed),
        len(ready),
        waiting,
        facts,
    )


def _conditions(obj: Wire) -> Any:
    return (obj.get("status") or {}).get("conditions")


def _groups(pods: Iterable[Wire]) -> list[WaitingPodGroup]:
    found: dict[tuple[tuple[str, ...], str, str], list[tuple[str, str]]] = {}
    for pod in pods:
        scheduled = conditions.find(_conditions(pod), conditions.POD_SCHEDULED) or {}
        key = tuple(gate_names(pod)), str(scheduled.get("reason") or ""), str(scheduled.get("message") or "")
        found.setdefault(key, []).append((pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]))
    groups = [WaitingPodGroup(tuple(name for _, name in sorted(names)), *key) for key, names in sorted(found.items())]
    return sorted(groups, key=lambda each: (-len(each.pods), each.pods))


def _facts(deployment: Wire, spec: Mapping[str, Any]) -> Iterable[str]:
    if spec.get("paused"):
        yield "it is paused (spec.paused): changes of its template create no pods"
    failure = conditions.find(_conditions(deployment), _REPORTED[0]) or {}
    if failure.get("status") == "True":
        yield f"pods cannot be created ({failure.get('reason')}): {failure.get('message')}"
    progressing = conditions.find(_conditions(deployment), _REPORTED[1]) or {}
    if progressing.get("status") == "False":
        yield f"it does not progress ({progressing.get('reason')}): {progressing.get('message')}"
