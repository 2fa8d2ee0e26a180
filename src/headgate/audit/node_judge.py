"""Checks placements, and the condition that makes autoscalers buy machines.

A bound pod keeps its node, and no binding lifts the requests on a node above what it has. ``Unschedulable`` is not set
on a pod with a gate, nor on one that will fit when terminating pods are gone, nor on a member of a gang before the
gates of the minimum are removed. Whether a pod fits is decided by requests, taints, node selectors and node affinity;
pods with other constraints are not checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.audit.findings import Finding
from headgate.audit.pod_facts import PodFacts
from headgate.kube import conditions, taints
from headgate.kube.node_affinity import required_node_affinity
from headgate.kube.resource_amounts import PODS, amount_text, read_amounts

Object = dict[str, Any]
Problem = tuple[str, str, bool]

_SETTLED_S: Final = 5.0
"""A scheduler may not know of a termination that began this recently."""


class AuditedNode(msgspec.Struct, frozen=True):
    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str]
    taints: tuple[Object, ...]
    is_usable: bool


class _TrackedPod(msgspec.Struct, frozen=True):
    facts: PodFacts
    terminating_since_s: float | None

    @property
    def node(self) -> str:
        """The node on which it uses capacity; empty if there is none."""
        return "" if self.facts.is_terminal else self.facts.node


class NodeJudge:
    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.nodes: dict[str, AuditedNode] = {}
        self.node_of: dict[str, str] = {}
        """By uid, the first node of every pod that got one."""
        self.used: dict[str, Counter[str]] = {}
        """By node, the requests of the pods on it."""
        self._pods: dict[str, _TrackedPod] = {}
        self._on_node: dict[str, set[str]] = {}
        self._nominated: dict[str, set[str]] = {}
        self._members: dict[tuple[str, str], set[str]] = {}
        self._minimum: dict[tuple[str, str], int] = {}

    def take_node(self, obj: Object, deleted: bool) -> None:
        name = str(obj["metadata"]["name"])
        if deleted:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = _read_node(obj)

    def take_group(self, obj: Object, deleted: bool) -> None:
        key = str(obj["metadata"].get("namespace") or ""), str(obj["metadata"]["name"])
        self._minimum.pop(key, None)
        if not deleted:
            self._minimum[key] = int((obj.get("spec") or {}).get("minMember") or 0)

    def take_pod(self, pod: PodFacts, obj: Object, deleted: bool, at_s: float, revision: int, observed: bool) -> None:
        before = self._pods.get(pod.uid)
        if before is not None:
            self._track(before, -1)
            del self._pods[pod.uid]
        if deleted:
            return
        since_s = before.terminating_since_s if before is not None else None
        now = _TrackedPod(pod, (at_s if since_s is None else since_s) if pod.is_terminating else None)
        self._pods[pod.uid] = now
        self._track(now, +1)
        states = list(self._of_gates(pod))
        problems = list(self._of_binding(before, now))
        if pod.reason == conditions.UNSCHEDULABLE and (before is None or before.facts.reason != pod.reason):
            problems += self._of_condition(pod, obj, at_s) if not pod.gates else ()
        self.findings += [
            Finding(rule, pod.subject, text, at_s, revision, certain)
            for rule, text, certain in (*states, *(problems if observed else ()))
        ]

    def forget_pod(self, pod: PodFacts) -> None:
        """The pod is gone, and its history with it."""
        self.node_of.pop(pod.uid, None)
        for table, node in ((self._on_node, pod.node), (self._nominated, pod.nominated)):
            if node in table and not table[node]:
                del table[node]
        key = pod.namespace, pod.group
        if key in self._members and not self._members[key]:
            del self._members[key]

    def forget_node(self, name: str) -> None:
        """The node is gone."""
        if not self._on_node.get(name):
            self.used.pop(name, None)

    def _track(self, pod: _TrackedPod, sign: int) -> None:
        facts = pod.facts
        places = [(self._on_node, pod.node), (self._nominated, facts.nominated if not facts.node else "")]
        for table, node in places:
            if node:
                (table.setdefault(node, set()).add if sign > 0 else table[node].discard)(facts.uid)
        if facts.group:
            members = self._members.setdefault((facts.namespace, facts.group), set())
            (members.add if sign > 0 else members.discard)(facts.uid)
        if pod.node:
            counts = self.used.setdefault(pod.node, Counter())
            for resource, amount in facts.requests.items():
                counts[resource] += sign * amount

    def _of_binding(self, before: _TrackedPod | None, now: _TrackedPod) -> Iterator[Problem]:
        pod, first = now.facts, self.node_of.get(now.facts.uid, "")
        if first:
            if pod.node != first:
                yield "node-changed", f"it moved from node {first} to {pod.node or 'none'}", True
            return
        if not pod.node:
            return
        self.node_of[pod.uid] = pod.node
        node = self.nodes.get(pod.node)
        if node is None or before is None or pod.is_daemon:
            return  # it was bound when it was created, by its owner
        used = self.used.get(pod.node, Counter())
        for resource, amount in pod.requests.items():
            limit = node.allocatable.get(resource, 0)
            if amount and used[resource] > limit:
                has = f"{amount_text(resource, used[resource])} of {amount_text(resource, limit)} {resource}"
                yield "node-overcommitted", f"its binding lifts node {pod.node} to {has}", True

    # -- the condition ---------------------------------------------------------------------------------------------

    def _of_gates(self, pod: PodFacts) -> Iterator[Problem]:
        if pod.gates and pod.reason == conditions.UNSCHEDULABLE and not pod.is_terminating:
            yield "unschedulable-behind-gate", f"it is Unschedulable and has gates: {', '.join(pod.gates)}", True

    def _of_condition(self, pod: PodFacts, obj: Object, at_s: float) -> Iterator[Problem]:
        key = pod.namespace, pod.group
        minimum = self._minimum.get(key, 0) if pod.group else 0
        members = [self._pods[uid].facts for uid in self._members.get(key, ())] if minimum else []
        ungated = sum(not each.gates for each in members)
        if ungated < minimum and any(each.gates for each in members):
            yield "unschedulable-before-gang", f"{ungated} of {minimum} members of {pod.group} have no gate", True
        if pod.stamp is None and not pod.is_kueue_managed:
            return  # its scheduler does not promise to wait for terminating pods
        node = self._node_with_leaving_pods(pod, obj, at_s)
        if node:
            text = f"it fits on node {node} when terminating pods are gone"
            yield "unschedulable-while-terminating", text, pod.stamp is not None

    def _node_with_leaving_pods(self, pod: PodFacts, obj: Object, at_s: float) -> str:
        """A node on which the pod fits when the terminating pods are gone, and on which there are some."""
        spec = obj.get("spec") or {}
        if _has_other_constraints(spec):
            return ""
        affinity = required_node_affinity(obj)
        for name, uids in sorted(self._on_node.items()):
            node = self.nodes.get(name)
            if node is None or not node.is_usable or not affinity.matches(node.labels, name):
                continue
            if taints.first_untolerated(node.taints, spec.get("tolerations")) is not None:
                continue
            there = [self._pods[uid] for uid in uids]
            leaving = [each for each in there if self._leaves(each, at_s)]
            if leaving and self._fits(pod, node, [each for each in there if each not in leaving]):
                return name
        return ""

    def _leaves(self, pod: _TrackedPod, at_s: float) -> bool:
        """Whether the pod has been terminating long enough to be known, and is not overdue."""
        since_s = pod.terminating_since_s
        if since_s is None or pod.facts.is_daemon:
            return False
        return since_s + _SETTLED_S <= at_s <= pod.facts.terminates_s

    def _fits(self, pod: PodFacts, node: AuditedNode, staying: list[_TrackedPod]) -> bool:
        claims = [each.facts for each in staying]
        claims += [self._pods[uid].facts for uid in self._nominated.get(node.name, ()) if uid != pod.uid]
        if len(claims) >= node.allocatable.get(PODS, 0):
            return False
        return all(
            amount + sum(each.requests.get(resource, 0) for each in claims) <= node.allocatable.get(resource, 0)
            for resource, amount in pod.requests.items()
        )


def _read_node(obj: Object) -> AuditedNode:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    found = read_amounts(status.get("allocatable") or status.get("capacity"), "status.allocatable")
    ready = conditions.find(status.get("conditions"), "Ready")
    is_ready = ready is None or ready.get("status") == "True"
    return AuditedNode(
        str(obj["metadata"]["name"]),
        {} if isinstance(found, str) else found,
        obj["metadata"].get("labels") or {},
        tuple(spec.get("taints") or ()),
        is_ready and not spec.get("unschedulable"),
    )


def _has_other_constraints(spec: Mapping[str, Any]) -> bool:
    affinity = spec.get("affinity") or {}
    ports = any(port.get("hostPort") for each in spec.get("containers") or () for port in each.get("ports") or ())
    claims = any(each.get("persistentVolumeClaim") for each in spec.get("volumes") or ())
    others = affinity.get("podAffinity") or affinity.get("podAntiAffinity") or spec.get("topologySpreadConstraints")
    return bool(others or ports or claims)
