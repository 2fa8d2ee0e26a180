"""Signs that an autoscaler adds a node for a pod, which renew the lease of its promise (``reservation_leases.py``).

- An Event on the pod: ``TriggeredScaleUp`` of Cluster Autoscaler, ``Nominated`` of Karpenter. Each counts for the time
  in which both autoscalers give up a machine that does not join (:data:`PROVISIONING_S`).
- A NodeClaim of Karpenter that is not initialized yet and on which the pod fits: Karpenter limits the rate of its
  Events, so many pods of a large batch get none.

``runtime/scheduler/runner.py`` watches these objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.kube import conditions, quantity
from headgate.kube.api_resources import EVENTS, APIResource
from headgate.kube.labels import Requirement
from headgate.kube.lenient_reader import find_items, find_object, find_strings, find_text, find_texts
from headgate.kube.node_affinity import NodeSelectorTerm
from headgate.kube.quantity import Quantity
from headgate.kube.resource_amounts import units
from headgate.kube.timestamps import parse_micro_time, parse_time
from headgate.scheduling.cache.pod import PodInfo

NODE_CLAIMS: Final = APIResource("karpenter.sh", "v1", "nodeclaims", namespaced=False)
PRIORITY_CLASSES: Final = APIResource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
PROVISIONING_S: Final = 900.0
"""How long both autoscalers wait for a machine: ``--max-node-provision-time`` of Cluster Autoscaler, and the
registration time of Karpenter's NodeClaims."""
_REASONS: Final = ("TriggeredScaleUp", "Nominated")
_WELL_KNOWN: Final = ("kubernetes.io/", "node.kubernetes.io/", "topology.kubernetes.io/", "karpenter.sh/")
"""Prefixes of labels that a machine gets from its instance type: a NodeClaim without such a label may still get it."""
_US_PER_S: Final = 1_000_000


class LeaseWatch(msgspec.Struct, frozen=True):
    """Objects to watch. ``field_selector``: of the list and the watch; empty for none."""

    resource: APIResource
    fields: tuple[str, ...]
    field_selector: str = ""


WATCHES: Final = (
    *(
        LeaseWatch(
            EVENTS,
            (
                "involvedObject",
                "reason",
                "lastTimestamp",
                "eventTime",
                "series",
                "metadata.creationTimestamp",
            ),
            f"involvedObject.kind=Pod,reason={reason}",
        )
        for reason in _REASONS
    ),
    LeaseWatch(
        NODE_CLAIMS,
        ("metadata.labels", "metadata.deletionTimestamp", "spec.requirements", "spec.resources", "status.conditions"),
    ),
    LeaseWatch(PRIORITY_CLASSES, ("metadata.annotations",)),
)
"""What leases read, besides pods and queues."""


class PodSign(msgspec.Struct, frozen=True):
    """An Event that says that a node is added for the pod. ``at_s``: seconds since 1970."""

    uid: str
    at_s: float


def read_sign(event: Mapping[str, Any]) -> PodSign | None:
    """The sign in an Event; None if it is none. It never raises."""
    uid = find_text(event, "involvedObject", "uid")
    if not uid or find_text(event, "reason") not in _REASONS or find_text(event, "involvedObject", "kind") != "Pod":
        return None
    micros = [
        found
        for text in (find_text(event, "eventTime"), find_text(event, "series", "lastObservedTime"))
        if text and not isinstance(found := parse_micro_time(text), str)
    ]
    seconds = [
        float(found)
        for text in (find_text(event, "lastTimestamp"), find_text(event, "metadata", "creationTimestamp"))
        if text and not isinstance(found := parse_time(text), str)
    ]
    times = [*(each / _US_PER_S for each in micros), *seconds]
    return PodSign(uid, max(times)) if times else None


class StartingMachine(msgspec.Struct, frozen=True):
    """A NodeClaim whose node is not initialized. ``values``: the possible values of each of its labels. ``requests``:
    what the pods that it was created for request."""

    values: Mapping[str, frozenset[str]]
    requests: Mapping[str, int]

    def fits(self, pod: PodInfo) -> bool:
        """Whether the pod may be one of those that the machine was created for."""
        if any(amount > self.requests.get(name, 0) for name, amount in pod.shape.requests.items()):
            return False
        required = pod.shape.required
        if required.labels.nothing or not self._match(required.labels.requirements):
            return False
        return required.affinity is None or any(map(self._matches_term, required.affinity.terms))

    def _matches_term(self, term: NodeSelectorTerm) -> bool:
        return not term.fields and not term.labels.nothing and self._match(term.labels.requirements)

    def _match(self, requirements: Iterable[Requirement]) -> bool:
        return all(map(self._matches, requirements))

    def _matches(self, requirement: Requirement) -> bool:
        values = self.values.get(requirement.key)
        if values is None:
            return requirement.key.startswith(_WELL_KNOWN) or requirement.matches({})
        return any(requirement.matches({requirement.key: value}) for value in values)


class StartingMachines:
    """The NodeClaims whose nodes are not initialized, by name. Equal ones are checked once."""

    def __init__(self) -> None:
        self._by_name: dict[str, StartingMachine] = {}

    def applied(self, obj: Mapping[str, Any]) -> None:
        name = find_text(obj, "metadata", "name")
        machine = read_starting_machine(obj)
        if machine is None:
            self._by_name.pop(name, None)
        else:
            self._by_name[name] = machine

    def removed(self, name: str) -> None:
        self._by_name.pop(name, None)

    def may_serve(self, pod: PodInfo) -> bool:
        """Whether one of these machines may be for the pod."""
        return any(each.fits(pod) for each in self._by_name.values())


def read_starting_machine(claim: Mapping[str, Any]) -> StartingMachine | None:
    """None if the NodeClaim is being deleted, or its node is initialized. It never raises."""
    initialized = conditions.find(find_items(claim, "status", "conditions"), "Initialized")
    if find_text(claim, "metadata", "deletionTimestamp") or (initialized or {}).get("status") == "True":
        return None
    values = {
        find_text(each, "key"): frozenset(find_strings(each, "values"))
        for each in find_items(claim, "spec", "requirements")
        if each.get("operator") == "In"
    }
    labels = find_texts(find_object(claim, "metadata"), "labels")
    values |= {name: frozenset((value,)) for name, value in labels.items()}
    requests = {}
    for name, value in find_object(claim, "spec", "resources", "requests").items():
        parsed = quantity.parse(value)
        if isinstance(parsed, Quantity):
            requests[name] = units(name, parsed)
    return StartingMachine(values, requests)
