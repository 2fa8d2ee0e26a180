"""What a real kube-scheduler says in its log: which nodes it knows, which pods it tried in which order, how that ended.

With the right level for a few of its files (`VERBOSITY`), the log has more than the API: the order of the attempts, and
the score that every plugin gave to every node. A node is logged under the lock of the scheduler's cache, so the next
decision after such a line uses the node.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

VERBOSITY = "schedule_one=10,node_tree=2,binder=4,eventhandlers=4,preemption=2"
PATIENCE_S = 60.0
LINE = re.compile(r'[A-Z]\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] "(?P<text>[^"]+)"(?P<rest>.*)')
VALUE = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')


class Attempt:
    """One try to place a pod. Nodes are only scored where there is a choice."""

    def __init__(self, pod: str) -> None:
        self.pod = pod
        """Namespace and name."""
        self.node = ""
        self.is_bound = False
        """Or else, if it has a node, still waits for its volumes."""
        self.message = ""
        self.promised = ""
        """The nominated node, on which pods are preempted for it."""
        self.victims: set[str] = set()
        self.is_preempting = False
        self.scores: dict[str, dict[str, int]] = {}
        """By node and plugin, weights included; the sum under an empty name."""

    @property
    def is_decided(self) -> bool:
        return bool(self.node or self.message) and not self.is_preempting

    def totals(self) -> dict[str, int]:
        return {node: scores[""] for node, scores in self.scores.items()}

    def __repr__(self) -> str:
        return f"{self.pod}: {self.node or self.message} {self.scores or ''}"


class Log:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes: set[str] = set()
        self.attempts: dict[str, Attempt] = {}
        """The first of each pod, in order."""
        self.updates: Counter[str] = Counter()
        """How often a pod that has a node was seen to change."""
        self._position = 0
        self._rest = ""
        self._handlers: dict[str, Callable[[dict[str, str]], None]] = {
            "Added node to NodeTree": lambda said: self.nodes.add(said["node"]),
            "Removed node from NodeTree": lambda said: self.nodes.discard(said["node"]),
            "Attempting to schedule pod": self._attempted,
            "Plugin scored node for pod": self._scored,
            "Calculated node's final score for pod": self._scored,
            "Unable to schedule pod; no fit; waiting": self._failed,
            "Error scheduling pod; retrying": self._failed,
            "Successfully bound pod to node": self._bound,
            # A pod whose volumes have to be bound first has its node, and waits for a controller that is not there.
            "BindPodVolumes": self._waits,
            "the target node for the preemption is determined": self._promised,
            "Preemptor Pod preempted victim Pod": self._preempted,
            "Async Preemption finished completely": self._finished,
            "Update event for scheduled pod": lambda said: self.updates.update([said["pod"]]),
        }

    def forget(self) -> None:
        """Of pods so far nothing more is of interest."""
        self.attempts.clear()
        self.updates.clear()

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        deadline_s = monotonic() + PATIENCE_S
        while not ready():
            if not self._read():
                assert monotonic() < deadline_s, f"kube-scheduler is still not done: {what}\n{self.attempts}"
                sleep(0.001)

    def _read(self) -> bool:
        with self.path.open("rb") as log:
            log.seek(self._position)
            data = log.read()
        if not data:
            return False
        self._position += len(data)
        *lines, self._rest = (self._rest + data.decode()).split("\n")
        for line in lines:
            found = LINE.match(line)
            handler = self._handlers.get(found["text"]) if found else None
            if found and handler:
                handler({name: _unquoted(value) for name, value in VALUE.findall(found["rest"])})
        return True

    def _attempted(self, said: dict[str, str]) -> None:
        self.attempts.setdefault(said["pod"], Attempt(said["pod"]))

    def _scored(self, said: dict[str, str]) -> None:
        attempt = self.attempts.get(said["pod"])
        if attempt and not attempt.is_decided:
            attempt.scores.setdefault(said["node"], {})[said.get("plugin", "")] = int(said["score"])

    def _failed(self, said: dict[str, str]) -> None:
        attempt = self.attempts.get(said["pod"])
        if attempt and not attempt.is_decided:
            attempt.message = said["err"]

    def _bound(self, said: dict[str, str]) -> None:
        attempt = self.attempts.get(said["pod"])
        if attempt and not attempt.is_decided:
            attempt.node, attempt.is_bound = said["node"], True

    def _waits(self, said: dict[str, str]) -> None:
        attempt = self.attempts.get(said["pod"])
        if attempt and not attempt.is_decided:
            attempt.node = said["node"]

    def _promised(self, said: dict[str, str]) -> None:
        attempt = self.attempts.get(said["pod"])
        if attempt and not attempt.is_decided:
            attempt.promised, attempt.is_preempting = said["node"], True

    def _preempted(self, said: dict[str, str]) -> None:
        if attempt := self.attempts.get(said["preemptor"]):
            attempt.victims.add(said["victim"])

    def _finished(self, said: dict[str, str]) -> None:
        if attempt := self.attempts.get(said["preemptor"]):
            attempt.is_preempting = False


def _unquoted(value: str) -> str:
    unquoted: str = ast.literal_eval(value) if value.startswith('"') else value
    return unquoted
