"""A cluster as a workload scenario sees it: objects by short names, conditions to wait for, and checkpoints.

A scenario calls `cluster.create(deployment("web", replicas=3))`, then `cluster.checkpoint("it is up",
cluster.status("deployments/web", readyReplicas=3))`. A checkpoint waits until its conditions hold and nothing has
changed for a moment. Then it records every pod, owner and event of the namespace (`snapshot.py`). What a checkpoint
does not wait for must not be racy.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.normalise import DATE
from harness.scenarios import Object, Scenario, ScenarioCluster
from harness.server import Server
from headgate.kube.timestamps import format_time
from headgate.nodes.annotations import HOLLOW
from real.workloads.names import Names
from real.workloads.snapshot import ELSEWHERE, Look, event_source, events, snapshot

PATIENCE_S = 45.0
SETTLE_S = 1.2  # the Job controller gathers changes for a second
LOOK_S = 0.3
SETTLED_LOOKS = 3  # on a busy machine one look may take longer than SETTLE_S
EVENT_S = 1.0
"""Times of events are whole seconds: one that a stop waited for is older than that, what comes next is not."""
EVENTS_SETTLE_S = 2.5
GROUPS = {
    "/api/v1": ("pods", "events", "services", "configmaps", "persistentvolumeclaims", "replicationcontrollers"),
    "/api/v1 ": ("resourcequotas", "limitranges", "secrets", "serviceaccounts", "nodes", "persistentvolumes"),
    "/apis/apps/v1": ("deployments", "replicasets", "statefulsets", "daemonsets", "controllerrevisions"),
    "/apis/batch/v1": ("jobs", "cronjobs"),
    "/apis/policy/v1": ("poddisruptionbudgets",),
    "/apis/storage.k8s.io/v1": ("storageclasses",),
    "/apis/scheduling.k8s.io/v1": ("priorityclasses",),
}
PREFIXES = {plural: prefix.strip() for prefix, plurals in GROUPS.items() for plural in plurals}
CLUSTER = frozenset({"nodes", "persistentvolumes", "storageclasses", "priorityclasses"})
PLURALS = (
    {plural.removesuffix("s"): plural for plural in PREFIXES}
    | {"priorityclass": "priorityclasses"}
    | {"storageclass": "storageclasses"}
)
MAKES = {
    "deployments": ("replicasets",),
    "statefulsets": ("controllerrevisions", "persistentvolumeclaims"),
    "daemonsets": ("controllerrevisions",),
    "cronjobs": ("jobs",),
}
"""What owners of a kind make beside pods."""
TOO_LATE = "the object has been modified"
"""A conflict with another writer depends on timing on any cluster, and the later writer tries again."""
UNNOTED = frozenset({"services", "configmaps", "secrets", "serviceaccounts", "storageclasses", "priorityclasses"})
AGE = re.compile(r"(?<![\w.-])(?:\d+[smhd]){1,3}(?![\w-])")
GAP = re.compile(r" {2,}")
REPEATED = re.compile(r" \(x\d+ over <age>\)")


NO_NEW = {"effect": "NoSchedule"}


@dataclass(frozen=True)
class WaitCondition:
    """Something to wait for; `seen` is what a failure shows."""

    what: str
    holds: Callable[[], bool]
    seen: Callable[[], Any]


@dataclass(frozen=True)
class Checkpoint:
    """What was noted, and until when what happened counts for it."""

    snapshot: Object
    at_s: float
    words: bool


class WorkloadCluster(ScenarioCluster):
    def __init__(self, server: Server, name: str) -> None:
        super().__init__(server, name)
        self.names = Names()
        self._kinds: dict[str, None] = {"pods": None}
        self._own: dict[str, list[str]] = {}
        self._since: dict[str, str] = {}
        self._checkpoints: list[Checkpoint] = []

    # -- acting ----------------------------------------------------------------------------------------------------

    def at(self, what: str, subresource: str = "") -> str:
        """The path of `plural` or `plural/name`, in the scenario's namespace if the kind has namespaces."""
        plural, _, name = what.partition("/")
        inside = "" if plural in CLUSTER else f"/namespaces/{self.ns}"
        path = f"{PREFIXES[plural]}{inside}/{plural}" + (f"/{name}" if name else "")
        return f"{path}/{subresource}" if subresource else path

    def create(self, *objects: Object) -> None:
        """Names of cluster-scoped objects should contain `cluster.ns`: all scenarios share the cluster."""
        for obj in objects:
            plural = PLURALS[obj["kind"].lower()]
            self.looks_at(plural)
            if plural in CLUSTER:
                self._own.setdefault(plural, []).append(obj["metadata"]["name"])
            self.post(self.at(plural), obj)

    def looks_at(self, *plurals: str) -> None:
        """Objects of these kinds are noted at stops; those of kinds that were created are anyway."""
        for plural in plurals:
            self._kinds.update(dict.fromkeys((plural, *MAKES.get(plural, ()))))

    def change(self, what: str, body: Object, subresource: str = "") -> None:
        """A merge patch."""
        self.patch(self.at(what, subresource), body)

    def remove(self, what: str, policy: str | None = None) -> None:
        self.delete(self.at(what), policy)

    def end_pod(self, name: str, *, phase: str = "Failed", exit_code: int = 1, **status: Any) -> None:
        """The pod's containers exited, as its kubelet would tell."""
        pod = self.read(f"pods/{name}")
        reason = "Error" if exit_code else "Completed"
        ended = {"terminated": {"exitCode": exit_code, "reason": reason, "finishedAt": format_time(time.time())}}
        containers = [
            {"name": each["name"], "image": each["image"], "imageID": "", "ready": False, "restartCount": 0}
            | {"state": ended}
            for each in pod["spec"]["containers"]
        ]
        self.change(f"pods/{name}", {"status": {"phase": phase, "containerStatuses": containers, **status}}, "status")

    def own_nodes(self, *names: str) -> Object:
        """Makes nodes that no other scenario's pods go to; the part of a pod's spec that sends it there."""
        mine = {"key": "story", "value": self.ns}
        for each in names:
            name = f"{self.ns}-{each}"
            labels = {HOLLOW: "true", "story": self.ns, "kubernetes.io/hostname": name}
            metadata = {"name": name, "labels": labels}
            self.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [mine | NO_NEW]}})
        return {"nodeSelector": {"story": self.ns}, "tolerations": [mine | {"operator": "Equal"} | NO_NEW]}

    def kubectl(self, line: str, lines: str = "all", stdin: Object | None = None) -> None:
        """Notes what a command printed; `lines`: "all", "sorted" (by what they say) or "last" (the others race)."""
        done = self.server.kubectl(["-n", self.ns, *line.split()], None if stdin is None else json.dumps(stdin))
        self._fetched()
        printed = [self._shown(each) for each in done.stdout.splitlines()]
        if lines == "sorted":
            printed = printed[:1] + sorted(printed[1:])
        elif lines == "last":
            printed = printed[-1:]
        self.note(f"kubectl {line}", [done.exit, printed, self._shown(done.stderr)])

    def _shown(self, text: str) -> str:
        text = DATE.sub("<date>", self.names.text(text)).replace(self.ns, "<ns>")
        return GAP.sub("  ", REPEATED.sub("", AGE.sub("<age>", text))).rstrip()

    # -- seeing ----------------------------------------------------------------------------------------------------

    def read(self, what: str) -> Object:
        answer = self.get(self.at(what))
        assert answer.status == 200, f"{self.server.name}: {what}: {answer.status} {answer.body!r}"
        found: Object = answer.json()
        return found

    def pods(self, **labels: str) -> list[Object]:
        """By name; those being deleted, too."""
        found = [each for each in self.items(self.at("pods")) if labels.items() <= (_labels(each)).items()]
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    # -- waiting ---------------------------------------------------------------------------------------------------

    def status(self, what: str, **counts: Any) -> WaitCondition:
        """The status has these fields (0 and None: or lacks them) and is that of the newest generation."""

        def seen() -> Any:
            answer = self.get(self.at(what))
            return answer.json() if answer.status == 200 else None

        def holds() -> bool:
            obj = seen() or {}
            status = obj.get("status") or {}
            newest = status.get("observedGeneration", obj.get("metadata", {}).get("generation"))
            told = newest == obj.get("metadata", {}).get("generation")
            return (
                bool(obj)
                and told
                and all((status.get(key) or None) == (wanted or None) for key, wanted in counts.items())
            )

        return WaitCondition(f"{what} has {counts}", holds, lambda: (seen() or {}).get("status"))

    def condition(self, what: str, kind: str, status: str = "True", reason: str | None = None) -> WaitCondition:
        def conditions() -> Any:
            answer = self.get(self.at(what))
            return (answer.json().get("status") or {}).get("conditions") or [] if answer.status == 200 else []

        def holds() -> bool:
            return any(
                each["type"] == kind and each["status"] == status and reason in (None, each.get("reason"))
                for each in conditions()
            )

        return WaitCondition(f"{what} is {kind}={status} {reason or ''}", holds, conditions)

    def pods_are(self, count: int, phase: str | None = None, **labels: str) -> WaitCondition:
        """So many pods, of which none is being deleted; all in that phase, if one is named."""

        def holds() -> bool:
            found = self.pods(**labels)
            going = any("deletionTimestamp" in each["metadata"] for each in found)
            phases = {each["status"]["phase"] for each in found}
            return len(found) == count and not going and (phase is None or phases <= {phase})

        def seen() -> Any:
            return [(each["metadata"]["name"], each["status"]["phase"]) for each in self.pods(**labels)]

        return WaitCondition(f"there are {count} pods {phase or ''} {labels or ''}", holds, seen)

    def going(self, what: str) -> WaitCondition:
        def seen() -> Any:
            return self.read(what)["metadata"]

        return WaitCondition(f"{what} is being deleted", lambda: "deletionTimestamp" in seen(), seen)

    def going_pods(self, count: int) -> WaitCondition:
        """This number of pods is being deleted, and their containers have stopped: a finalizer keeps them."""

        def seen() -> list[Object]:
            return [each for each in self.pods() if "deletionTimestamp" in each["metadata"]]

        def stopped(pod: Object) -> bool:
            return pod["status"]["phase"] in ("Succeeded", "Failed")

        return WaitCondition(
            f"{count} pods are being deleted", lambda: [stopped(each) for each in seen()] == [True] * count, seen
        )

    def untainted(self, node: str) -> WaitCondition:
        """It has no taint but that of the scenario."""

        def taints() -> list[Object]:
            return [each for each in self.read(f"nodes/{node}")["spec"].get("taints") or () if each["key"] != "story"]

        return WaitCondition(f"{node} is free of taints", lambda: not taints(), taints)

    def gone(self, *what: str) -> WaitCondition:
        def left() -> list[str]:
            return [each for each in what if self.get(self.at(each)).status != 404]

        return WaitCondition(f"{', '.join(what)} gone", lambda: not left(), left)

    def event(self, reason: str, kind: str = "") -> WaitCondition:
        def seen() -> list[tuple[str, str]]:
            return [(each["involvedObject"]["kind"], each["reason"]) for each in self.items(self.at("events"))]

        return WaitCondition(
            f"an event {reason} {kind}", lambda: any(r == reason and kind in ("", k) for k, r in seen()), seen
        )

    def wait(self, *holds: WaitCondition, patience_s: float = PATIENCE_S) -> None:
        deadline_s = time.monotonic() + patience_s
        for each in holds:
            while not each.holds():
                if time.monotonic() > deadline_s:
                    raise AssertionError(f"it never happened that {each.what}; seen: {each.seen()}"[:1500])
                time.sleep(LOOK_S)

    def note_revision(self, label: str) -> None:
        """The one revision there is, by its name and the hash that it carries, neither of which is taken for a drawn
        one, and by the bytes of its data, which kubectl compares."""
        path = self.at("controllerrevisions")
        (revision,) = self.items(path)
        for where in (path, f"{path}/{revision['metadata']['name']}"):
            _, found, text = self.get(where).body.decode().partition('"data":{"spec":')
            data, _, _ = text.rpartition(',"revision":')
            assert found
            assert data
            self.note("its data, letter by letter", list(data))
        self.note("its name, letter by letter", list(revision["metadata"]["name"]))
        self.note("its hash, letter by letter", list(revision["metadata"]["labels"][label]))

    def note(self, title: str, value: Any) -> None:
        self.notes.append((title, self.names.value(value)))

    # -- comparing -------------------------------------------------------------------------------------------------

    def checkpoint(
        self,
        title: str,
        *holds: WaitCondition,
        words: bool = False,
        unsure: Sequence[str] = (),
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Waits for all of it, and for things to settle; then notes what there is.

        `words`: events by message; `unsure`: types of conditions whose reason is a matter of timing on any cluster.
        """
        deadline_s = time.monotonic() + patience_s
        self.wait(*holds, patience_s=patience_s)
        before, since_s, equal_looks = self._look(title, unsure), time.monotonic(), 0
        while time.monotonic() - since_s < SETTLE_S or equal_looks < SETTLED_LOOKS:
            assert time.monotonic() < deadline_s + SETTLE_S, f"{title}: it never settled: {json.dumps(before)[:1500]}"
            time.sleep(LOOK_S)
            # Before the look: what begins to hold after it is not in what is noted.
            is_there = all(each.holds() for each in holds)
            now = self._look(title, unsure)
            equal_looks += 1
            if now != before or not is_there:
                before, since_s, equal_looks = now, time.monotonic(), 0
        self.note(title, before)
        self._checkpoints.append(Checkpoint(self.notes[-1][1], time.time() - EVENT_S, words))

    def finish(self) -> None:
        """Says of each stop which events there were by then. They are written when there is time, so this is last."""
        found, since_s = self._events(), time.monotonic()
        while time.monotonic() - since_s < EVENTS_SETTLE_S:
            time.sleep(LOOK_S)
            now = self._events()
            if len(now) != len(found):
                found, since_s = now, time.monotonic()
        for stop in self._checkpoints:
            stop.snapshot["events"] = events(
                [each for each in found if _at_s(each) <= stop.at_s], self.names, stop.words
            )

    def _events(self) -> list[Object]:
        found = [each for each in self.items(self.at("events")) if event_source(each) not in ELSEWHERE]
        return [each for each in found if TOO_LATE not in each.get("message", "")]

    def _look(self, title: str, unsure: Sequence[str]) -> Object:
        found = self._fetched()
        for each in found["pods"]:
            self._since.setdefault(each["metadata"]["uid"], title)
        return snapshot(found, self.names, Look(self._since, frozenset(unsure)))

    def _fetched(self) -> dict[str, list[Object]]:
        found: dict[str, list[Object]] = {}
        for plural in self._kinds:
            if plural in CLUSTER:
                answers = [self.get(self.at(f"{plural}/{name}")) for name in self._own.get(plural, ())]
                found[plural] = [each.json() for each in answers if each.status == 200]
            elif plural not in UNNOTED:
                found[plural] = self.items(self.at(plural))
        self.names.learn(found)
        return found


def _labels(obj: Object) -> dict[str, str]:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels


def _at_s(event: Object) -> float:
    return datetime.fromisoformat(event.get("firstTimestamp") or event["metadata"]["creationTimestamp"]).timestamp()


def scenario(name: str, run: Callable[[WorkloadCluster], None]) -> Scenario:
    """A scenario that begins in an empty namespace of its own."""

    def run_in_namespace(cluster: ScenarioCluster) -> None:
        assert isinstance(cluster, WorkloadCluster)
        cluster.make_namespace()
        try:
            run(cluster)
        finally:
            cluster.finish()

    return Scenario(name, run_in_namespace)
