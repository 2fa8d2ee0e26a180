"""What is asked to explain a pod in Kueue's queues: its Workload, or its group and who stands above it.

A generator that yields requests and is sent answers. What holds a pod beside Kueue's gate is ``control/survey.py``'s.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import msgspec

from headgate.client.listing import Page, Refused, list_all
from headgate.client.transport import Request, Response
from headgate.control.gaps import Gap, gap_of
from headgate.control.quota.ancestry import find_ancestor
from headgate.control.quota.inquiry import unsure_of
from headgate.control.quota.survey import QuotaSurvey
from headgate.jobs.ancestors import known_ancestors
from headgate.jobs.explaining import Absence, unseen_workload, why_no_workload_of_pod
from headgate.jobs.pods.shape import gates_of_others, group_of
from headgate.kube import wire_json
from headgate.kube.references import controller_of, owner_references
from headgate.kube.resource import PODS
from headgate.owners.families.pods import is_finished
from headgate.quota.account import Account, account_of
from headgate.quota.kinds.names import WORKLOADS

Wire = dict[str, Any]

_decode: Final = wire_json.Decoder(Page[Wire]).decode


class PodInquiry(msgspec.Struct, frozen=True):
    """``absence``: why there is no Workload, or that it cannot be seen. ``missing``: what could not be read."""

    accounts: tuple[Account, ...] = ()
    absence: Absence | None = None
    missing: tuple[Gap, ...] = ()


def inquire_pod(pod: Wire, found: QuotaSurvey, now_s: float) -> Generator[Request, Response, PodInquiry]:
    """Of the Workloads that a pod belongs to: its own, its group's, or its job's."""
    namespace, group = pod["metadata"].get("namespace", ""), group_of(pod)
    owner = controller_of(pod) or {}
    uids = {pod["metadata"].get("uid"), owner.get("uid")} - {None}
    mine = [
        wire
        for key, wire in sorted(found.workloads.items())
        if (group and key == f"{namespace}/{group}") or any(each.get("uid") in uids for each in owner_references(wire))
    ]
    if mine:
        return PodInquiry(tuple(account_of(found.engine, wire, found.knows_places, now_s) for wire in mine))
    if not found.sees(WORKLOADS):
        why = found.gaps[0].text if found.is_absent else found.why_unseen(WORKLOADS)
        return PodInquiry((), unseen_workload(pod, why))
    ancestor = yield from find_ancestor(pod, known_ancestors())
    members, gates = 1, dict[str, None]()
    missing: tuple[Gap, ...] = ()
    if group:
        listed = yield from list_all(PODS.collection(namespace), lambda body: _of_group(body, group))
        if isinstance(listed, Refused):
            members, missing = -1, (gap_of(PODS, listed, namespace),)
        else:
            members = len(listed.items)
            gates = {gate: None for each in listed.items for gate in gates_of_others(each)}
    absence = why_no_workload_of_pod(pod, unsure_of(ancestor), members, tuple(sorted(gates)))
    return PodInquiry((), absence, missing)


def _of_group(body: bytes, group: str) -> Page[Wire]:
    page = _decode(body)
    return Page(page.metadata, [each for each in page.items if group_of(each) == group and _is_live(each)])


def _is_live(pod: Wire) -> bool:
    return not is_finished(pod) and not pod["metadata"].get("deletionTimestamp")
