"""A cache of the namespaces, queues, groups, GatePolicies and waiting pods that admission handlers read, updated by
events.

The embedded server updates the cache from the store (``cli/embedded/admission.py``), the webhook server from watches,
which may be late: ``cache_reader.py`` says which objects the webhook server reads again. ``scope`` says which
namespaces and queues opt in (``review_scope.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from headgate.admission.assumed_resizes import AllowedResize, AssumedResizes
from headgate.admission.review_scope import ReviewScope
from headgate.admission.settings import AdmissionSettings
from headgate.capacity.api.queue import QueueIndex
from headgate.capacity.kinds.queue_rules import QueueLister
from headgate.capacity.names import OPT_IN, POD_GROUPS, QUEUES
from headgate.gate_policies.api import read_policy
from headgate.gate_policies.index import GatePolicyIndex
from headgate.gate_policies.names import GATE_POLICIES
from headgate.gate_policies.pod_counts import AdmittedPod, GatedPodCounts
from headgate.jobs.framework.management import known_ancestors
from headgate.jobs.names import DEFAULT_QUEUE
from headgate.kube.api_resources import NAMESPACES, PODS, STATEFUL_SETS, APIResource
from headgate.kube.lenient_reader import find_text
from headgate.quota.kinds.names import LOCAL_QUEUES

Object = dict[str, Any]
Key = tuple[APIResource, str, str]

ALWAYS_WATCHED: Final[Mapping[APIResource, tuple[str, ...]]] = {
    NAMESPACES: ("metadata.annotations", "metadata.labels"),
    QUEUES: (
        "metadata.annotations",
        "spec",
        "status.state",
        "status.conditions",
        "status.allocated",
        "status.reserved",
    ),
    POD_GROUPS: ("spec.queue",),
}
"""The resources that are always watched, and the fields that the handlers use."""
_OWNER_FIELDS: Final = ("metadata.uid", "metadata.labels", "metadata.ownerReferences")

_STATEFUL_SET_FIELDS: Final = (*_OWNER_FIELDS, "spec.replicas", "spec.template.metadata.annotations", "status.replicas")


GATE_OWNERSHIP: Final[Mapping[APIResource, tuple[str, ...]]] = {
    GATE_POLICIES: ("metadata.creationTimestamp", "metadata.generation", "spec"),
    PODS: ("spec.nodeName", "spec.schedulingGates", "status.phase"),
}
"""The resources that are watched as well if the feature gate GateOwnership is on."""
FIELD_SELECTORS: Final[Mapping[APIResource, str]] = {PODS: "spec.nodeName="}
"""Which objects of a resource are watched: a pod that waits behind a gate has no node."""


def watched_resources(settings: AdmissionSettings) -> Mapping[APIResource, tuple[str, ...]]:
    """The watched resources and their fields. If jobs use Kueue's queues, LocalQueues and the kinds of possible owners
    of pods are watched as well."""
    watched = {**ALWAYS_WATCHED, **(GATE_OWNERSHIP if settings.features.gate_ownership else {})}
    if not settings.suspends_jobs:
        return watched
    owners = dict.fromkeys(known_ancestors(settings.jobs.kinds).values(), _OWNER_FIELDS)
    return {**watched, LOCAL_QUEUES: ("metadata.uid",), **owners, STATEFUL_SETS: _STATEFUL_SET_FIELDS}


class AdmissionCache:
    """Implements ``ClusterView`` (``settings.py``). ``resizes``: the assumed resizes of the cache that this one
    replaces, if any."""

    def __init__(self, resizes: AssumedResizes | None = None) -> None:
        self.resizes: Final = AssumedResizes() if resizes is None else resizes
        self.gate_policies: Final = GatePolicyIndex()
        self.gated_pods: Final = GatedPodCounts()
        self._objects: Final[dict[Key, Object]] = {}
        self._queue_index: Final = QueueIndex()
        self._groups: Final[dict[str, dict[Key, None]]] = {}  # by queue, in the order of their events
        self._opting_in: Final[dict[APIResource, set[str]]] = {NAMESPACES: set(), QUEUES: set(), LOCAL_QUEUES: set()}
        self.scope = ReviewScope()

    def applied(self, resource: APIResource, wire: Object) -> None:
        if resource == PODS:  # only counted
            self.gated_pods.apply(wire)
            return
        metadata = wire["metadata"]
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        self._forget(resource, namespace, name)
        self._objects[resource, namespace, name] = wire
        if resource == QUEUES:
            self._queue_index.apply(wire)
        elif resource == POD_GROUPS:
            self._groups.setdefault(queue_of_group(wire), {})[resource, namespace, name] = None
        elif resource == GATE_POLICIES:
            self.gate_policies.apply(read_policy(wire))
            self._set_scope()
        if resource in self._opting_in:
            self._update_scope(resource, namespace, name, wire)

    def removed(self, resource: APIResource, namespace: str, name: str) -> None:
        if resource == PODS:
            self.gated_pods.remove(namespace, name)
            return
        self._forget(resource, namespace, name)
        if resource == GATE_POLICIES:
            self._set_scope()
        if resource in self._opting_in:
            self._update_scope(resource, namespace, name, None)

    def _update_scope(self, resource: APIResource, namespace: str, name: str, wire: Object | None) -> None:
        """``wire``: None if the object was deleted."""
        if resource == LOCAL_QUEUES:
            if name != DEFAULT_QUEUE:
                return
            key, opts_in = namespace, wire is not None
        else:
            key, opts_in = name, find_text(wire or {}, "metadata", "annotations", OPT_IN) == "true"
        names = self._opting_in[resource]
        if opts_in == (key in names):
            return
        (names.add if opts_in else names.discard)(key)
        self._set_scope()

    def _set_scope(self) -> None:
        self.scope = ReviewScope(
            frozenset(self._opting_in[NAMESPACES]),
            bool(self._opting_in[QUEUES]),
            frozenset(self._opting_in[LOCAL_QUEUES]),
            self.gate_policies.gates,
        )

    def assume(self, assumed: AllowedResize | AdmittedPod, now_s: float) -> None:
        """Later requests count what was allowed before the API server shows it."""
        if isinstance(assumed, AdmittedPod):
            self.gated_pods.admit(assumed, now_s)
        else:
            self.resizes.assume(assumed, now_s)

    def _forget(self, resource: APIResource, namespace: str, name: str) -> None:
        before = self._objects.pop((resource, namespace, name), None)
        if before is None:
            return
        if resource == QUEUES:
            self._queue_index.remove(name)
        elif resource == POD_GROUPS:
            groups = self._groups[queue_of_group(before)]
            del groups[resource, namespace, name]
            if not groups:
                del self._groups[queue_of_group(before)]
        elif resource == GATE_POLICIES:
            self.gate_policies.remove(name)

    def get(self, resource: APIResource, namespace: str, name: str, uid: str = "") -> Object | None:
        return self._objects.get((resource, namespace if resource.namespaced else "", name))

    @property
    def queues(self) -> QueueLister:
        return self._queue_index

    def groups(self, queue: str) -> Collection[Key]:
        """The PodGroups of the queue."""
        return self._groups.get(queue, {}).keys()

    def group_count(self, queue: str) -> int:
        return len(self.groups(queue))


def queue_of_group(group: Object) -> str:
    return find_text(group, "spec", "queue")
