"""The DaemonSet controller: its watches, the keys that it enqueues, and the order of its steps.

A reconcile first creates and deletes pods on changed nodes, then takes the next step of a rolling update, and last
updates the status and deletes old revisions. A change of a node or a pod leads to the evaluation of one node only
(``daemon_nodes.py``). The events of pods that arrive within 20 ms lead to one reconcile.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from headgate.controllers.daemon_sets import node_state, placement, rolling_update
from headgate.controllers.daemon_sets.daemon_nodes import DaemonNodes
from headgate.controllers.daemon_sets.node_state import DaemonPod, DaemonSetRules
from headgate.controllers.daemon_sets.placement import KIND, PlacementNode
from headgate.controllers.daemon_sets.status import has_changed, status_of
from headgate.controllers.framework.effects import Effect, EffectResponse, EmitEvent
from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.ownership import controller_revisions
from headgate.controllers.ownership import pods as facts
from headgate.controllers.ownership.adoption import claim
from headgate.controllers.ownership.cache import Key
from headgate.controllers.ownership.controller_revisions import REVISION_LABEL
from headgate.controllers.ownership.dependents import create_dependents, delete_dependents, resolve_unconfirmed
from headgate.controllers.ownership.revisioned_controller import RevisionedController
from headgate.kube.api_resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from headgate.kube.object_meta import controller_of

Object = dict[str, Any]
Problem = str | None
"""An error text, or None after success."""
Hash = Callable[[Object, int | None], str]

COMPONENT: Final = "daemonset-controller"
BURST: Final = 250
"""The maximum number of pods that one reconcile creates, and that it deletes."""
_BATCH_S: Final = 0.02
_AFFINITY: Final = f"spec.affinity.nodeAffinity.{placement.REQUIRED}"
_NODE_FIELDS: Final = frozenset({"metadata.labels", "spec.taints"})


class _ReconcileProgress(msgspec.Struct):
    """The progress of one reconcile."""

    problem: Problem = None
    is_namespace_terminating: bool = False
    """The namespace is terminating: no more pods can be created."""
    has_more: bool = False
    """More pods must be created or deleted than one reconcile does."""
    wait_s: float = math.inf


class DaemonSetController(RevisionedController):
    name = "daemon-sets"

    def __init__(self, random_suffix: Callable[[], str], hash_template: Hash, burst: int = BURST) -> None:
        """``hash_template`` returns the hash of a template after a number of collisions; None if there were none."""
        super().__init__(KIND, DAEMON_SETS, COMPONENT, _BATCH_S, self._on_pod_change)
        self._random_suffix = random_suffix
        self._hash_template = hash_template
        self._burst = burst
        self._nodes: Final[dict[str, PlacementNode]] = {}
        self._nodes_by_set: Final[dict[str, DaemonNodes]] = {}  # by the uid of the DaemonSet
        # By the uid of a pod: the uid of its DaemonSet, and its node.
        self._node_of_pod: Final[dict[str, tuple[str, str]]] = {}

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(DAEMON_SETS, ALL_FIELDS),
            WatchSpec(PODS, facts.FIELDS | {_AFFINITY}),
            WatchSpec(CONTROLLER_REVISIONS, ALL_FIELDS),
            WatchSpec(NODES, _NODE_FIELDS),
        )

    # -- watch events ----------------------------------------------------------------------------------------------

    def _other_applied(self, obj: Object) -> Iterable[Enqueue]:
        return self._node_changed(placement.read_node(obj))

    def _other_removed(self, namespace: str, name: str, uid: str) -> Iterable[Enqueue]:
        self._nodes.pop(name, None)
        return self._affected_sets(name)

    def _on_owner_removed(self, uid: str) -> None:
        self._nodes_by_set.pop(uid, None)

    def _owner_changed(self, daemon_set: Object) -> list[Key]:
        metadata = daemon_set["metadata"]
        known = self._pods.owner((metadata["namespace"], metadata["name"]))
        if known is not None and known["metadata"]["uid"] != metadata["uid"]:
            self._nodes_by_set.pop(known["metadata"]["uid"], None)
        return super()._owner_changed(daemon_set)

    def _node_changed(self, node: PlacementNode) -> Iterable[Enqueue]:
        if self._nodes.get(node.name) == node:
            return ()
        self._nodes[node.name] = node
        return self._affected_sets(node.name)

    def _affected_sets(self, node: str) -> list[Enqueue]:
        """The DaemonSets that a change of this node affects."""
        changed = [uid for uid, daemon_nodes in self._nodes_by_set.items() if daemon_nodes.node_changed(node)]
        return self._enqueue_batched(key for uid in changed if (key := self._pods.key_of(uid)) is not None)

    def _on_pod_change(self, uid: str, daemon_set: str | None, pod: Object | None) -> None:
        before = self._node_of_pod.pop(uid, None)
        after = None
        if daemon_set is not None and pod is not None and (controller_of(pod) or {}).get("kind") == KIND.kind:
            target = placement.target_of(pod)
            after = None if target is None else (daemon_set, target)
        if before is not None and before != after:
            self._remove_pod(*before, uid)
        if after is not None and pod is not None:
            self._node_of_pod[uid] = after
            self._daemon_nodes(after[0]).put(after[1], uid, DaemonPod(pod, self._pods.is_terminating(uid)))

    def _remove_pod(self, daemon_set: str, node: str, uid: str) -> None:
        daemon_nodes = self._nodes_by_set.get(daemon_set)
        if daemon_nodes is not None:
            daemon_nodes.drop(node, uid)
            if not daemon_nodes and self._pods.key_of(daemon_set) is None:
                del self._nodes_by_set[daemon_set]

    def _daemon_nodes(self, uid: str) -> DaemonNodes:
        daemon_nodes = self._nodes_by_set.get(uid)
        if daemon_nodes is None:
            daemon_nodes = self._nodes_by_set[uid] = DaemonNodes(self._nodes)
        return daemon_nodes

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        daemon_set = self._pods.owner(key)
        if daemon_set is None or "deletionTimestamp" in daemon_set["metadata"]:
            return Done()
        problem = yield from resolve_unconfirmed(self._pods, daemon_set)
        problem = problem or (yield from self._claim(key, daemon_set)) or (yield from claim(self._revisions, key))
        daemon_set = self._pods.owner(key)
        if daemon_set is None:
            return Done()
        if problem is not None:
            return RequeueWithBackoff(problem)
        recorded = yield from self._revision(daemon_set, functools.partial(self._new_revision, daemon_set))
        if recorded.revision is None:
            return RequeueWithBackoff(recorded.problem)
        rules = _rules(daemon_set, _hash_of(recorded.revision))
        progress = yield from self._reconcile_nodes(daemon_set, rules, now_s)
        problem = yield from self._sync_status(daemon_set, recorded.collisions)
        if progress.problem is None and problem is None and not progress.is_namespace_terminating:
            problem = yield from self._drop_revisions(self._excess_revisions(daemon_set, recorded.revision))
        problem = progress.problem or problem
        if problem is not None:
            return RequeueWithBackoff(problem)
        if progress.has_more:
            return Done([Enqueue(key)])
        after_s = min(progress.wait_s, self._daemon_nodes(daemon_set["metadata"]["uid"]).next_s() - now_s)
        return RequeueAfter(max(after_s, _BATCH_S)) if after_s < math.inf else Done()

    def _claim(self, key: Key, daemon_set: Object) -> Generator[Effect, EffectResponse, Problem]:
        unclaimed = self._daemon_nodes(daemon_set["metadata"]["uid"]).unclaimed
        selector = self._pods.selector(key)
        pods = [self._pods.dependent(uid) for uid in unclaimed]
        unclaimed.clear()
        has_mismatch = any(pod is not None and not selector.matches(pod["metadata"].get("labels")) for pod in pods)
        if has_mismatch or self._pods.candidates(key):
            return (yield from claim(self._pods, key))
        return None

    def _new_revision(self, daemon_set: Object, number: int, collisions: int) -> Object:
        hash_ = self._hash_template(daemon_set["spec"]["template"], collisions or None)
        return controller_revisions.new_revision(daemon_set, KIND, number, hash_, REVISION_LABEL)

    def _reconcile_nodes(
        self, daemon_set: Object, rules: DaemonSetRules, now_s: float
    ) -> Generator[Effect, EffectResponse, _ReconcileProgress]:
        daemon_nodes = self._daemon_nodes(daemon_set["metadata"]["uid"])
        daemon_nodes.refresh(rules, now_s)
        progress = yield from self._create_pods(daemon_set, daemon_nodes, rules, now_s)
        daemon_nodes.refresh(rules, now_s)
        if (
            progress.problem is None
            and not progress.is_namespace_terminating
            and rolling_update.has_rolling_update_strategy(daemon_set)
        ):
            yield from self._roll(daemon_set, daemon_nodes, rules, progress)
            daemon_nodes.refresh(rules, now_s)
        return progress

    def _create_pods(
        self, daemon_set: Object, daemon_nodes: DaemonNodes, rules: DaemonSetRules, now_s: float
    ) -> Generator[Effect, EffectResponse, _ReconcileProgress]:
        """Creates and deletes pods on all nodes to check."""
        progress, generation = _ReconcileProgress(), (daemon_set.get("status") or {}).get("observedGeneration") or 0
        creates: list[str] = []
        deletes: list[Object] = []
        for node in sorted(daemon_nodes.nodes_to_check):
            need = node_state.needed_actions(daemon_nodes.fit(node), daemon_nodes.pods_on(node), rules, now_s)
            if len(creates) >= self._burst or len(deletes) >= self._burst:
                progress.has_more = True
                break
            daemon_nodes.nodes_to_check.discard(node)
            creates += [node] * need.creates
            deletes += [pod.obj for pod in (*need.deletes, *need.succeeded)]
            for pod in need.succeeded:
                yield _pod_event(daemon_set, pod, node, "succeeded")
            wait_s = daemon_nodes.backoff_s(node, generation, now_s) if need.failed else 0.0
            if wait_s > 0:
                progress.wait_s = min(progress.wait_s, wait_s)
                daemon_nodes.nodes_to_check.add(node)
                continue
            for pod in need.failed:
                daemon_nodes.ended_failed(node, generation, now_s)
                yield _pod_event(daemon_set, pod, node, "failed")
                deletes.append(pod.obj)
        yield from self._change(daemon_set, creates, deletes, rules, progress)
        if progress.problem is not None:
            daemon_nodes.nodes_to_check.update(creates)
            daemon_nodes.nodes_to_check.update(
                target for pod in deletes if (target := placement.target_of(pod)) is not None
            )
        return progress

    def _roll(
        self, daemon_set: Object, daemon_nodes: DaemonNodes, rules: DaemonSetRules, progress: _ReconcileProgress
    ) -> Generator[Effect, EffectResponse, None]:
        desired = daemon_nodes.counts.desired
        limits = rolling_update.limits_of(daemon_set, desired)
        next_ = rolling_update.replace(daemon_nodes.groups, limits, desired, daemon_nodes.counts.serving)
        progress.has_more = progress.has_more or max(len(next_.deletes), len(next_.creates)) > self._burst
        old = [node_state.old_pod(daemon_nodes.pods_on(node), rules) for node in next_.deletes[: self._burst]]
        deletes = [pod.obj for pod in old if pod is not None]
        yield from self._change(daemon_set, next_.creates[: self._burst], deletes, rules, progress)

    def _change(
        self,
        daemon_set: Object,
        nodes: Sequence[str],
        deletes: Sequence[Object],
        rules: DaemonSetRules,
        progress: _ReconcileProgress,
    ) -> Generator[Effect, EffectResponse, None]:
        prefix = facts.prefix_of(daemon_set["metadata"]["name"])
        bodies = [
            placement.pod_for(
                daemon_set, node, facts.generated_name(prefix, self._random_suffix()), rules.revision_hash
            )
            for node in nodes
        ]
        created = yield from create_dependents(self._pods, daemon_set, bodies)
        progress.is_namespace_terminating = created.stop
        problem = yield from delete_dependents(self._pods, daemon_set, deletes)
        progress.problem = (None if created.stop else created.problem) or problem

    def _sync_status(self, daemon_set: Object, collisions: int) -> Generator[Effect, EffectResponse, Problem]:
        status = status_of(daemon_set, self._daemon_nodes(daemon_set["metadata"]["uid"]).counts, collisions)
        return (yield from self._write_status(daemon_set, status)) if has_changed(daemon_set, status) else None

    def _excess_revisions(self, daemon_set: Object, current: Object) -> list[Object]:
        """The old revisions beyond the history limit, oldest first, without those that pods have."""
        limit = daemon_set["spec"].get("revisionHistoryLimit")
        old = [each for each in self._history(daemon_set) if each["metadata"]["uid"] != current["metadata"]["uid"]]
        excess = len(old) - (10 if limit is None else limit)
        if excess <= 0:
            return []
        pods = self._pods.dependents(daemon_set["metadata"]["uid"]).values()
        live = {(pod["metadata"].get("labels") or {}).get(REVISION_LABEL) for pod in pods}
        return [each for each in old if _hash_of(each) not in live][:excess]


def _rules(daemon_set: Object, revision_hash: str) -> DaemonSetRules:
    return DaemonSetRules(
        placement=placement.placement_of(daemon_set["spec"]["template"]),
        revision_hash=revision_hash,
        generation=placement.template_generation(daemon_set),
        min_ready_s=daemon_set["spec"].get("minReadySeconds") or 0,
        surges=rolling_update.allows_surge(daemon_set),
    )


def _hash_of(revision: Object) -> str:
    metadata = revision["metadata"]
    return str((metadata.get("labels") or {}).get(REVISION_LABEL) or metadata["name"])


def _pod_event(daemon_set: Object, pod: DaemonPod, node: str, outcome: Literal["failed", "succeeded"]) -> EmitEvent:
    pod_key = f"{daemon_set['metadata']['namespace']}/{pod.name}"
    reference = facts.object_reference(daemon_set, KIND)
    if outcome == "failed":
        text = f"Found failed daemon pod {pod_key} on node {node}, will try to kill it"
        return EmitEvent(reference, "Warning", "FailedDaemonPod", text, COMPONENT)
    text = f"Found succeeded daemon pod {pod_key} on node {node}, will try to delete it"
    return EmitEvent(reference, "Normal", "SucceededDaemonPod", text, COMPONENT)
