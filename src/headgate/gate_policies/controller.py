"""The controller of GatePolicies: ages of gates, Leases of owners, the status of each policy.

Admission (``admission/gate_policies.py``) refuses writes; this controller does what no write triggers. There are three
kinds of keys: a policy (its status, and its Lease, which is polled because a watch of all Leases would deliver those of
all nodes; every second until the owner is known to be alive), a gate (which pods have become overdue), and an overdue
pod (its Event, its gate, its deletion). Each fails and is tried again on its own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final

import msgspec

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import Delete, Effect, EffectResponse, EmitEvent, Get, Patch
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.gate_policies.api import Action, GatePolicy, read_policy
from headgate.gate_policies.decision import gates_of
from headgate.gate_policies.gate_ages import GateAges, WaitingPod
from headgate.gate_policies.index import GatePolicyIndex
from headgate.gate_policies.lease_health import SOON_S, LeaseHealth, missing_lease, observe_lease, unreadable_lease
from headgate.gate_policies.metrics import OLDEST, OVERDUE, OWNER, POLICY_ACCEPTED, WAITING, GatePolicyMetrics
from headgate.gate_policies.names import ACCEPTED, GATE_POLICIES
from headgate.gate_policies.status import gates_in_effect, policy_status
from headgate.kube import conditions
from headgate.kube.api_resources import LEASES, PODS, APIResource
from headgate.kube.decisions import Decided, Decision, ignore_decision
from headgate.kube.lenient_reader import find_object
from headgate.kube.metrics import Sample
from headgate.kube.timestamps import human_duration

Object = dict[str, Any]

COMPONENT: Final = "headgate-gate-policies"
OVERDUE_REASON: Final = "GateOverdue"
LIFTED_REASON: Final = "OverdueGateLifted"
DELETED_REASON: Final = "OverduePodDeleted"
_LIFTED: Final = ("the gate was lifted", LIFTED_REASON)
_DELETED: Final = ("the pod was deleted", DELETED_REASON)
_STATUS_DELAY_S: Final = 1.0
"""Counts change with every pod; the status is written at most once in this time."""
_READS_PER_S: Final = 5.0
"""How often Leases of owners that are not known to be alive are read, all policies together."""
_POD_FIELDS: Final = frozenset({"metadata.creationTimestamp", "spec.schedulingGates", "status.phase"})
_READ_POD_FIELDS: Final = ("metadata.uid", "metadata.resourceVersion", "spec.schedulingGates")
_LEASE_FIELDS: Final = ("metadata.uid", "spec")


class PolicyKey(msgspec.Struct, frozen=True):
    name: str


class GateKey(msgspec.Struct, frozen=True):
    gate: str


class OverdueKey(msgspec.Struct, frozen=True):
    gate: str
    uid: str


class GatePolicyController(Controller):
    name = "gate-policies"

    def __init__(self, metrics: GatePolicyMetrics, decided: Decided = ignore_decision) -> None:
        self._metrics: Final = metrics
        self._decided: Final = decided
        self._index: Final = GatePolicyIndex()
        self._ages: Final = GateAges()
        self._statuses: Final[dict[str, Object]] = {}
        self._leases: Final[dict[str, LeaseHealth]] = {}
        self._poll_at_s: Final[dict[str, float]] = {}
        self._is_served = False
        metrics.attach(self._samples)

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._is_served = any(row.resource == GATE_POLICIES for row in served.preferred)
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        if not self._is_served:
            return ()
        # A pod with a gate has no node.
        return (
            WatchSpec(
                GATE_POLICIES, frozenset({"metadata.creationTimestamp", "metadata.generation", "spec", "status"})
            ),
            WatchSpec(PODS, _POD_FIELDS, "spec.nodeName="),
        )

    # -- events ----------------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            return list(self._gates_changed(self._ages.apply(obj)))
        policy = read_policy(obj)
        known = self._index.get(policy.name)
        self._statuses[policy.name] = find_object(obj, "status")
        if known == policy:
            return (Enqueue(PolicyKey(policy.name), _STATUS_DELAY_S),)
        if known is None or known.uid != policy.uid or known.lease != policy.lease:
            self._forget_lease(policy.name)
        return list(self._policies_changed(policy.name, self._index.apply(policy)))

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            return list(self._gates_changed(self._ages.remove(uid)))
        self._statuses.pop(name, None)
        self._forget_lease(name)
        self._metrics.policy_removed(name)
        return list(self._policies_changed(name, self._index.remove(name)))

    def _forget_lease(self, name: str) -> None:
        self._leases.pop(name, None)
        self._poll_at_s.pop(name, None)

    def _gates_changed(self, gates: frozenset[str]) -> Iterator[Enqueue]:
        """Pods behind these gates came or went."""
        for gate in sorted(gates):
            policy = self._index.of_gate(gate)
            if policy is not None:
                yield Enqueue(PolicyKey(policy.name), _STATUS_DELAY_S)
                if policy.max_age_s is not None:
                    yield Enqueue(GateKey(gate))

    def _policies_changed(self, name: str, gates: frozenset[str]) -> Iterator[Enqueue]:
        """A policy of these gates is new, has changed or was deleted; so another may be in effect."""
        yield Enqueue(PolicyKey(name))
        for gate in sorted(gates):
            self._ages.reset(gate)
            yield Enqueue(GateKey(gate))
            yield from (Enqueue(PolicyKey(each)) for each in self._index.naming(gate))

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: PolicyKey | GateKey | OverdueKey, now_s: float) -> ReconcileSteps:
        match key:
            case PolicyKey(name):
                return (yield from self._reconcile_policy(name, now_s))
            case GateKey(gate):
                return self._find_overdue(gate, now_s)
            case OverdueKey(gate, uid):
                return (yield from self._handle_overdue(gate, uid, now_s))

    def _find_overdue(self, gate: str, now_s: float) -> Done:
        policy = self._index.of_gate(gate)
        if policy is None or policy.max_age_s is None:
            return Done()
        found = [Enqueue(OverdueKey(gate, pod.uid)) for pod in self._ages.due(gate, policy.max_age_s, now_s)]
        if found:
            found.append(Enqueue(PolicyKey(policy.name), _STATUS_DELAY_S))
        next_s = self._ages.next_due_s(gate, policy.max_age_s)
        if next_s is not None:
            found.append(Enqueue(GateKey(gate), max(next_s - now_s, 0.0)))
        return Done(tuple(found))

    def _handle_overdue(self, gate: str, uid: str, now_s: float) -> ReconcileSteps:
        pod, policy = self._ages.get(uid), self._index.of_gate(gate)
        if pod is None or policy is None or policy.max_age_s is None or not self._ages.is_overdue(gate, uid):
            return Done()
        action = policy.action_for(gate)
        waited = f"the pod has waited behind the gate {gate} for {human_duration(now_s - pod.created_s)}"
        limit = f"GatePolicy {policy.name} allows {human_duration(policy.max_age_s)}"
        if action == "Event":
            next_step = "`headgate gates list -A` shows the owner of the gate"
            yield _event(pod, OVERDUE_REASON, f"{waited}; {limit}: {next_step}")
        else:
            ended = yield from self._act(pod, gate, policy, action)
            if ended is not None:
                return ended
            done, reason = _LIFTED if action == "Lift" else _DELETED
            yield _event(pod, reason, f"{waited}; {limit}: {done}")
        self._metrics.acted(policy.name, action)
        if action != "Event":
            self._decided(_decision(pod, action, f"{waited}; {limit}", now_s))
        return Done()

    def _act(
        self, pod: WaitingPod, gate: str, policy: GatePolicy, action: Action
    ) -> Generator[Effect, EffectResponse, Done | RequeueWithBackoff | None]:
        """Lifts the gate or deletes the pod, in exactly the version that has the gate: its owner may have lifted it a
        moment ago. None if it was done."""
        response = yield Get(PODS, pod.namespace, pod.name, _READ_POD_FIELDS)
        if response.missing:
            return Done()
        if not response.ok:
            return RequeueWithBackoff(_failure("read", pod, policy, response))
        metadata = find_object(response.body, "metadata")
        if metadata.get("uid") != pod.uid or gate not in gates_of(find_object(response.body, "spec")):
            return Done()
        if self._index.of_gate(gate) is not policy:
            return Done()  # the policy was changed or deleted meanwhile
        version = {"uid": pod.uid, "resourceVersion": metadata.get("resourceVersion")}
        if action == "Lift":
            body = {"metadata": version, "spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]}}
            response = yield Patch(PODS, pod.namespace, pod.name, body)
        else:
            response = yield Delete(PODS, pod.namespace, pod.name, {"preconditions": version})
        if response.ok:
            return None
        return Done() if response.missing else RequeueWithBackoff(_failure(action.lower(), pod, policy, response))

    def _reconcile_policy(self, name: str, now_s: float) -> ReconcileSteps:
        policy = self._index.get(name)
        if policy is None:
            return Done()
        if policy.lease is not None and now_s >= self._poll_at_s.get(name, 0.0):
            response = yield Get(LEASES, policy.lease.namespace, policy.lease.name, _LEASE_FIELDS)
            lease, before = f"{policy.lease.namespace}/{policy.lease.name}", self._leases.get(name)
            if response.ok:
                health = observe_lease(lease, response.body, before, response.now_s)
            elif response.status == 404:
                health = missing_lease(lease)
            else:
                health = unreadable_lease(lease, response.message)
            current = self._index.get(name)
            if current is None or current.uid != policy.uid or current.lease != policy.lease:
                return Done()  # the change of the policy has enqueued it again
            policy = current
            self._leases[name] = health
            self._poll_at_s[name] = response.now_s + self._poll_after_s(health)
        before_status = self._statuses.get(name, {})
        status = policy_status(policy, self._index, self._ages, self._leases.get(name), before_status, now_s)
        if any(before_status.get(field) != value for field, value in status.items()):
            body = {"metadata": {"uid": policy.uid}, "status": status}
            response = yield Patch(GATE_POLICIES, "", name, body, "merge", "status")
            if response.missing:
                return Done()
            if not response.ok:
                return RequeueWithBackoff(f"the status of GatePolicy {name} cannot be written: {response.message}")
            if self._index.get(name) is policy:
                self._statuses[name] = find_object(response.body, "status")
        if policy.lease is None:
            return Done()
        return RequeueAfter(max(self._poll_at_s.get(name, now_s) - now_s, 0.0))

    def _poll_after_s(self, health: LeaseHealth) -> float:
        """When to read a Lease again. The requests for all Leases that are read often are bounded together."""
        often = sum(each.poll_after_s <= SOON_S for each in self._leases.values())
        return max(health.poll_after_s, often / _READS_PER_S) if health.poll_after_s <= SOON_S else health.poll_after_s

    # -- metrics ---------------------------------------------------------------------------------------------------

    def _samples(self, now_s: float) -> Iterator[Sample]:
        for policy in sorted(self._index, key=lambda each: each.name):
            label = ("policy", policy.name)
            accepted = conditions.is_true(self._statuses.get(policy.name, {}).get("conditions"), ACCEPTED)
            yield Sample(POLICY_ACCEPTED, (label,), int(accepted))
            health = self._leases.get(policy.name)
            if health is not None and health.status != "Unknown":
                yield Sample(OWNER, (label,), int(health.status == "True"))
            for gate in gates_in_effect(policy, self._index):
                labels, oldest_s = (label, ("gate", gate)), self._ages.oldest_s(gate)
                yield Sample(WAITING, labels, self._ages.count(gate))
                yield Sample(OVERDUE, labels, self._ages.overdue_count(gate))
                age_s = 0.0 if oldest_s is None or oldest_s == float("inf") else max(now_s - oldest_s, 0.0)
                yield Sample(OLDEST, labels, age_s)


def _event(pod: WaitingPod, reason: str, message: str) -> EmitEvent:
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return EmitEvent(about, "Warning", reason, message, COMPONENT)


def _decision(pod: WaitingPod, action: Action, message: str, now_s: float) -> Decision:
    return Decision(
        verb="gate removed" if action == "Lift" else "evicted",
        kind="Pod",
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        reason=OVERDUE_REASON,
        message=message,
        wait_seconds=now_s - pod.created_s,
    )


def _failure(verb: str, pod: WaitingPod, policy: GatePolicy, response: EffectResponse) -> str:
    target = f"a gate of pod {pod.namespace}/{pod.name}" if verb == "lift" else f"pod {pod.namespace}/{pod.name}"
    return f"GatePolicy {policy.name}: cannot {verb} {target}: {response.message}"
