"""The owner and the health of each scheduling gate, from the GatePolicies of a cluster, for ``headgate gates list``.

A cluster without the kind has no owners, which is not a problem. A refused list is: its text names the permission.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

import msgspec

from headgate.client.pager import ACCEPT, ListRefused, ListResponse, list_all
from headgate.client.permissions import NOT_FOUND, refusal_text
from headgate.gate_policies.api import GatePolicy, read_policy
from headgate.gate_policies.index import GatePolicyIndex
from headgate.gate_policies.names import ACCEPTED, GATE_POLICIES, OWNER_ALIVE, WITHIN_MAX_AGE
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube import conditions
from headgate.kube.lenient_reader import find_items, find_object, find_text
from headgate.kube.serializer import wire_json

Wire = dict[str, Any]

_decode_page: Final = wire_json.WireDecoder(ListResponse[Wire])
_HEALTHY: Final = "OK"
_NOT_REPORTED: Final = "not reported"


class GateOwner(msgspec.Struct, frozen=True):
    """``lifters``: the users that may lift the gate, as text. ``health``: ``OK``, or the reasons of conditions."""

    policy: str
    lifters: str
    health: str


class GateOwners(msgspec.Struct, frozen=True):
    """``is_served``: whether the cluster has GatePolicies. ``by_gate``: for gates that have a policy."""

    is_served: bool
    by_gate: Mapping[str, GateOwner] = {}


def gate_owners() -> Generator[HTTPRequest, HTTPResponse, GateOwners | ListRefused]:
    # A server refuses a list without a right also if it does not serve the kind, so discovery is asked first.
    discovery = yield HTTPRequest("GET", f"/apis/{GATE_POLICIES.group}/{GATE_POLICIES.version}", "", ACCEPT)
    if discovery.status == NOT_FOUND:
        return GateOwners(is_served=False)
    listed = yield from list_all(GATE_POLICIES.collection_path(), _decode_page.decode)
    if isinstance(listed, ListRefused):
        return ListRefused(refusal_text("list", GATE_POLICIES, None, listed), listed.status)
    index, wires = GatePolicyIndex(), dict[str, Wire]()
    for wire in listed.items:
        policy = read_policy(wire)
        index.apply(policy)
        wires[policy.name] = wire
    owners = {gate: _owner(found, wires[found.name]) for gate in index.gates if (found := index.of_gate(gate))}
    return GateOwners(is_served=True, by_gate=owners)


def _owner(policy: GatePolicy, wire: Wire) -> GateOwner:
    lifters = "every user" if policy.lifted_by is None else ", ".join(policy.lifted_by.display_names) or "no user"
    return GateOwner(policy.name, lifters, _health(policy, wire))


def _health(policy: GatePolicy, wire: Wire) -> str:
    """The reasons of all conditions that are not true. A status of an older spec does not count."""
    reported = [
        each
        for each in find_items(find_object(wire, "status"), "conditions")
        if each.get("observedGeneration") in (None, policy.generation)
    ]
    if not reported:
        return _NOT_REPORTED
    found = (conditions.find(reported, each) for each in (ACCEPTED, OWNER_ALIVE, WITHIN_MAX_AGE))
    problems = [find_text(each, "reason") for each in found if each is not None and each.get("status") != "True"]
    return ", ".join(problems) or _HEALTHY
