"""Explanations without what the viewer may not list: names of others become a count, amounts of queues are left out.

The texts of explanations name pods and Workloads as ``namespace/name``; no gate and no resource looks like that,
because a namespace has no dot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from headgate.capacity.explanation import PodExplanation, PodHold
from headgate.capacity.names import QUEUES
from headgate.dashboard.rights import ViewerRights
from headgate.estimates.estimator import StartEstimate, no_basis
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.quota.explain.description import HolderDescription, ShortageDescription, WorkloadDescription
from headgate.quota.kinds.names import CLUSTER_QUEUES, WORKLOADS
from headgate.views.explanations import UnitDetail

_KEY: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?/[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?"
_KEYS: Final = re.compile(rf"(?<![\w./-]){_KEY}(?:, {_KEY})*(?![\w/-])")
_NOT_SHOWN: Final = "its queue does not admit it; you may not list queues, so amounts are not shown"


def redact(text: str, sees: Callable[[str], bool]) -> str:
    """The text with keys in namespaces that the viewer does not see replaced by a count."""

    def replaced(found: re.Match[str]) -> str:
        return ", ".join(_listed(found[0].split(", "), sees))

    return _KEYS.sub(replaced, text)


def _listed(keys: Iterable[str], sees: Callable[[str], bool]) -> list[str]:
    shown, hidden = [], 0
    for key in keys:
        if sees(key.partition("/")[0]):
            shown.append(key)
        else:
            hidden += 1
    if hidden:
        shown.append(f"{hidden} that you may not list")
    return shown


def redact_detail(detail: UnitDetail, rights: ViewerRights) -> UnitDetail:
    if rights.everything:
        return detail
    pod = None if detail.pod is None else _redact_pod(detail.pod, rights)
    visible = [each for each in detail.workloads if rights.allow(WORKLOADS, each.namespace)]
    return msgspec.structs.replace(detail, pod=pod, workloads=tuple(_redact_workload(each, rights) for each in visible))


def redact_estimate(estimate: StartEstimate, rights: ViewerRights, workload: str) -> StartEstimate:
    """``workload``: its key; empty for the estimate of a pod. A start follows from the line of the queue, and its
    reason may name units of others."""
    if rights.everything:
        return estimate
    if not rights.allow(CLUSTER_QUEUES if workload else QUEUES):
        return no_basis("it is not shown, because it follows from queues, which you may not list")
    sees = _sees(WORKLOADS if workload else PODS, rights)
    place = estimate.place if workload or rights.allow(NODES) else ""
    return msgspec.structs.replace(estimate, reason=redact(estimate.reason, sees), place=place)


def _sees(resource: APIResource, rights: ViewerRights) -> Callable[[str], bool]:
    return lambda namespace: rights.allow(resource, namespace)


def _redact_pod(pod: PodExplanation, rights: ViewerRights) -> PodExplanation:
    if not rights.allow(QUEUES):
        holds = tuple(map(_without_amounts, pod.holds))
        return msgspec.structs.replace(pod, holds=holds, next=(), ignored=())
    sees = _sees(PODS, rights)
    return msgspec.structs.replace(
        pod,
        holds=tuple(msgspec.structs.replace(each, text=redact(each.text, sees)) for each in pod.holds),
        next=tuple(redact(each, sees) for each in pod.next),
        ignored=tuple(redact(each, sees) for each in pod.ignored),
    )


def _without_amounts(hold: PodHold) -> PodHold:
    if hold.kind not in ("queue", "group"):
        return hold
    return PodHold(hold.kind, hold.name, _NOT_SHOWN)


def _redact_workload(found: WorkloadDescription, rights: ViewerRights) -> WorkloadDescription:
    if not rights.allow(CLUSTER_QUEUES):
        # Its conditions are a part of the object; what follows from its queue is not.
        return msgspec.structs.replace(
            found,
            summary=found.said[1] or f"it is {found.state}",
            position=None,
            position_in_cluster_queue=None,
            behind="",
            tried=(),
            lacks=(),
            would_evict=(),
            enders=(),
            would_delay="",
            found="",
            next=(),
        )
    sees = _sees(WORKLOADS, rights)
    return msgspec.structs.replace(
        found,
        summary=redact(found.summary, sees),
        behind=redact(found.behind, sees),
        lacks=tuple(_redact_shortage(each, sees) for each in found.lacks),
        would_evict=tuple(_listed(found.would_evict, sees)),
        enders=tuple(_listed(found.enders, sees)),
        would_delay=redact(found.would_delay, sees),
        found=redact(found.found, sees),
        next=tuple(redact(each, sees) for each in found.next),
    )


def _redact_shortage(shortage: ShortageDescription, sees: Callable[[str], bool]) -> ShortageDescription:
    holders = tuple(
        each if sees(each.workload.partition("/")[0]) else HolderDescription("", each.cluster_queue, each.amount)
        for each in shortage.held_by
    )
    return msgspec.structs.replace(shortage, held_by=holders)
