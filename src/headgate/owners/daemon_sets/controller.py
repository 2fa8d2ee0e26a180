"""The controller of DaemonSets: what it hears, whom it wakes, and in which order the steps of its work come.

First every node that changed gets what it needs, then a rolling update takes its next step, then status and history.
A node or pod that changes costs that node, however many there are (``board.py``). News are gathered for a moment.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from headgate.kube.references import controller_of
from headgate.kube.resource import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from headgate.owners import revisions
from headgate.owners.contract import WHOLE, Again, Done, Interest, Later, Steps, Wake
from headgate.owners.daemon_sets import placement, rolling, spots
from headgate.owners.daemon_sets.board import Board
from headgate.owners.daemon_sets.placement import KIND, Node
from headgate.owners.daemon_sets.spots import Pod, Rules
from headgate.owners.daemon_sets.status import is_news, status_of
from headgate.owners.effects import Answer, Effect, Emit
from headgate.owners.families import pods as facts
from headgate.owners.families.claiming import claim
from headgate.owners.families.family import Key
from headgate.owners.families.making import end, make, settle
from headgate.owners.revisioned import RevisionedOwners
from headgate.owners.revisions import REVISION_LABEL

Object = dict[str, Any]
Problem = str | None
Hash = Callable[[Object, int | None], str]

COMPONENT: Final = "daemonset-controller"
BURST: Final = 250
"""Pods made, and pods ended, in one round at most."""
_GATHER_S: Final = 0.02
_AFFINITY: Final = f"spec.affinity.nodeAffinity.{placement.REQUIRED}"
_NODE_FIELDS: Final = frozenset({"metadata.labels", "spec.taints"})


class _Round(msgspec.Struct):
    """How far a round of work has come."""

    problem: Problem = None
    is_over: bool = False
    """The namespace is going: nothing more can be done."""
    is_cut: bool = False
    """There was more to do than is done in one round."""
    wait_s: float = math.inf


class DaemonSets(RevisionedOwners):
    name = "daemon-sets"

    def __init__(self, draw: Callable[[], str], hashed: Hash, burst: int = BURST) -> None:
        """``hashed`` gives the hash of a template that was found to be taken so many times, which may be never."""
        super().__init__(KIND, DAEMON_SETS, COMPONENT, _GATHER_S, self._pod_told)
        self._draw = draw
        self._hashed = hashed
        self._burst = burst
        self._nodes: Final[dict[str, Node]] = {}
        self._boards: Final[dict[str, Board]] = {}  # by the uid of the DaemonSet
        self._places: Final[dict[str, tuple[str, str]]] = {}  # of each pod: whose, and for which node

    def interests(self) -> Iterable[Interest]:
        return (
            Interest(DAEMON_SETS, WHOLE),
            Interest(PODS, facts.FIELDS | {_AFFINITY}),
            Interest(CONTROLLER_REVISIONS, WHOLE),
            Interest(NODES, _NODE_FIELDS),
        )

    # -- events in -------------------------------------------------------------------------------------------------

    def _other_applied(self, obj: Object) -> Iterable[Wake]:
        return self._node_changed(placement.read_node(obj))

    def _other_removed(self, namespace: str, name: str, uid: str) -> Iterable[Wake]:
        self._nodes.pop(name, None)
        return self._concerned(name)

    def _forgotten(self, uid: str) -> None:
        self._boards.pop(uid, None)

    def _learn(self, owner: Object) -> list[Key]:
        metadata = owner["metadata"]
        known = self._pods.owner((metadata["namespace"], metadata["name"]))
        if known is not None and known["metadata"]["uid"] != metadata["uid"]:
            self._boards.pop(known["metadata"]["uid"], None)
        return super()._learn(owner)

    def _node_changed(self, node: Node) -> Iterable[Wake]:
        if self._nodes.get(node.name) == node:
            return ()
        self._nodes[node.name] = node
        return self._concerned(node.name)

    def _concerned(self, node: str) -> list[Wake]:
        """Every DaemonSet to which a change of this node makes a difference."""
        changed = [uid for uid, board in self._boards.items() if board.node_changed(node)]
        return self._soon(key for uid in changed if (key := self._pods.key_of(uid)) is not None)

    def _pod_told(self, uid: str, owner: str | None, pod: Object | None) -> None:
        before = self._places.pop(uid, None)
        after = None
        if owner is not None and pod is not None and (controller_of(pod) or {}).get("kind") == KIND.kind:
            target = placement.target_of(pod)
            after = None if target is None else (owner, target)
        if before is not None and before != after:
            self._leave(*before, uid)
        if after is not None and pod is not None:
            self._places[uid] = after
            self._board(after[0]).put(after[1], uid, Pod(pod, self._pods.is_leaving(uid)))

    def _leave(self, owner: str, node: str, uid: str) -> None:
        board = self._boards.get(owner)
        if board is not None:
            board.drop(node, uid)
            if not board and self._pods.key_of(owner) is None:
                del self._boards[owner]

    def _board(self, uid: str) -> Board:
        board = self._boards.get(uid)
        if board is None:
            board = self._boards[uid] = Board(self._nodes)
        return board

    # -- work ------------------------------------------------------------------------------------------------------

    def work(self, key: Key, now_s: float) -> Steps:
        owner = self._pods.owner(key)
        if owner is None or "deletionTimestamp" in owner["metadata"]:
            return Done()
        problem = yield from settle(self._pods, owner)
        problem = problem or (yield from self._claim(key, owner)) or (yield from claim(self._revisions, key))
        owner = self._pods.owner(key)
        if owner is None:
            return Done()
        if problem is not None:
            return Again(problem)
        recorded = yield from self._revision(owner, functools.partial(self._new_revision, owner))
        if recorded.revision is None:
            return Again(recorded.problem)
        rules = _rules(owner, _hash_of(recorded.revision))
        done = yield from self._tend(owner, rules, now_s)
        problem = yield from self._tell(owner, recorded.collisions)
        if done.problem is None and problem is None and not done.is_over:
            problem = yield from self._drop_revisions(self._superfluous(owner, recorded.revision))
        problem = done.problem or problem
        if problem is not None:
            return Again(problem)
        if done.is_cut:
            return Done([Wake(key)])
        after_s = min(done.wait_s, self._board(owner["metadata"]["uid"]).next_s() - now_s)
        return Later(max(after_s, _GATHER_S)) if after_s < math.inf else Done()

    def _claim(self, key: Key, owner: Object) -> Generator[Effect, Answer, Problem]:
        unclaimed = self._board(owner["metadata"]["uid"]).unclaimed
        selector = self._pods.selector(key)
        looked_at = [self._pods.dependent(uid) for uid in unclaimed]
        unclaimed.clear()
        is_strange = any(pod is not None and not selector.matches(pod["metadata"].get("labels")) for pod in looked_at)
        if is_strange or self._pods.candidates(key):
            return (yield from claim(self._pods, key))
        return None

    def _new_revision(self, owner: Object, number: int, collisions: int) -> Object:
        hash_ = self._hashed(owner["spec"]["template"], collisions or None)
        return revisions.new_revision(owner, KIND, number, hash_, REVISION_LABEL)

    def _tend(self, owner: Object, rules: Rules, now_s: float) -> Generator[Effect, Answer, _Round]:
        board = self._board(owner["metadata"]["uid"])
        board.refresh(rules, now_s)
        done = yield from self._supply(owner, board, rules, now_s)
        board.refresh(rules, now_s)
        if done.problem is None and not done.is_over and rolling.is_rolling(owner):
            yield from self._roll(owner, board, rules, done)
            board.refresh(rules, now_s)
        return done

    def _supply(self, owner: Object, board: Board, rules: Rules, now_s: float) -> Generator[Effect, Answer, _Round]:
        """Every node that may need something gets it."""
        done, generation = _Round(), (owner.get("status") or {}).get("observedGeneration") or 0
        creates: list[str] = []
        ends: list[Object] = []
        for node in sorted(board.open):
            need = spots.need(board.fit(node), board.there(node), rules, now_s)
            if len(creates) >= self._burst or len(ends) >= self._burst:
                done.is_cut = True
                break
            board.open.discard(node)
            creates += [node] * need.creates
            ends += [pod.obj for pod in (*need.ends, *need.succeeded)]
            for pod in need.succeeded:
                yield _found(owner, pod, node, "succeeded")
            wait_s = board.wait_s(node, generation, now_s) if need.failed else 0.0
            if wait_s > 0:
                done.wait_s = min(done.wait_s, wait_s)
                board.open.add(node)
                continue
            for pod in need.failed:
                board.ended_failed(node, generation, now_s)
                yield _found(owner, pod, node, "failed")
                ends.append(pod.obj)
        yield from self._change(owner, creates, ends, rules, done)
        if done.problem is not None:
            board.open.update(creates)
            board.open.update(target for pod in ends if (target := placement.target_of(pod)) is not None)
        return done

    def _roll(self, owner: Object, board: Board, rules: Rules, done: _Round) -> Generator[Effect, Answer, None]:
        desired = board.counts.desired
        limits = rolling.limits_of(owner, desired)
        next_ = rolling.replace(board.groups, limits, desired, board.counts.serving)
        done.is_cut = done.is_cut or max(len(next_.ends), len(next_.creates)) > self._burst
        old = [spots.old_pod(board.there(node), rules) for node in next_.ends[: self._burst]]
        ends = [pod.obj for pod in old if pod is not None]
        yield from self._change(owner, next_.creates[: self._burst], ends, rules, done)

    def _change(
        self, owner: Object, nodes: Sequence[str], ends: Sequence[Object], rules: Rules, done: _Round
    ) -> Generator[Effect, Answer, None]:
        prefix = facts.prefix_of(owner["metadata"]["name"])
        bodies = [
            placement.pod_for(owner, node, facts.drawn_name(prefix, self._draw()), rules.revision_hash)
            for node in nodes
        ]
        made = yield from make(self._pods, owner, bodies)
        done.is_over = made.stop
        problem = yield from end(self._pods, owner, ends)
        done.problem = (None if made.stop else made.problem) or problem

    def _tell(self, owner: Object, collisions: int) -> Generator[Effect, Answer, Problem]:
        status = status_of(owner, self._board(owner["metadata"]["uid"]).counts, collisions)
        return (yield from self._tell_status(owner, status)) if is_news(owner, status) else None

    def _superfluous(self, owner: Object, current: Object) -> list[Object]:
        """Of the old revisions as many as are too many, the oldest first, but none that a pod is of."""
        limit = owner["spec"].get("revisionHistoryLimit")
        old = [each for each in self._history(owner) if each["metadata"]["uid"] != current["metadata"]["uid"]]
        excess = len(old) - (10 if limit is None else limit)
        if excess <= 0:
            return []
        pods = self._pods.dependents(owner["metadata"]["uid"]).values()
        live = {(pod["metadata"].get("labels") or {}).get(REVISION_LABEL) for pod in pods}
        return [each for each in old if _hash_of(each) not in live][:excess]


def _rules(owner: Object, revision_hash: str) -> Rules:
    return Rules(
        placement=placement.placement_of(owner["spec"]["template"]),
        revision_hash=revision_hash,
        generation=placement.template_generation(owner),
        min_ready_s=owner["spec"].get("minReadySeconds") or 0,
        surges=rolling.allows_surge(owner),
    )


def _hash_of(revision: Object) -> str:
    metadata = revision["metadata"]
    return str((metadata.get("labels") or {}).get(REVISION_LABEL) or metadata["name"])


def _found(owner: Object, pod: Pod, node: str, what: Literal["failed", "succeeded"]) -> Emit:
    place = f"{owner['metadata']['namespace']}/{pod.name}"
    about = facts.about(owner, KIND)
    if what == "failed":
        text = f"Found failed daemon pod {place} on node {node}, will try to kill it"
        return Emit(about, "Warning", "FailedDaemonPod", text, COMPONENT)
    text = f"Found succeeded daemon pod {place} on node {node}, will try to delete it"
    return Emit(about, "Normal", "SucceededDaemonPod", text, COMPONENT)
