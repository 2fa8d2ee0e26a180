"""Preemption against a slow, obvious reference: both choose the same node and victims after any changes of a cluster.

The reference has no matrix and no cache: it copies lists of pods as wire objects and follows the rules for every pod
anew. So cached results of the implementation must never be visible.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters import Cluster, a_node, a_pod
from headgate.kube.api_resources import POD_DISRUPTION_BUDGETS
from headgate.scheduling.framework.interface import ScheduleResult
from reference_scheduler import Reference, has, requests

Object = dict[str, Any]

NODES = ("a", "b", "c", "d")
CURABLE = ("Too many pods", "node(s) didn't have free ports for the requested pod ports")
UNSTARTED = "9"


class Found(NamedTuple):
    node: str
    victims: tuple[str, ...]
    message: str


class Slow:
    """Everything there is, as plain wire objects."""

    def __init__(self) -> None:
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.budgets: dict[str, Object] = {}
        self.promised: dict[str, tuple[Object, str]] = {}

    def on(self, node: str) -> list[Object]:
        return [each for each in self.pods.values() if each["spec"]["nodeName"] == node]

    def reasons(self, pod: Object, node: str, there: list[Object]) -> list[str]:
        """Once with the pods that are nominated to the node, and once without them."""
        promised = [
            other
            for other, where in self.promised.values()
            if where == node and other["spec"]["priority"] >= pod["spec"]["priority"] and name_of(other) != name_of(pod)
        ]
        for pods in ([*there, *promised], there):
            if found := Reference([], {node: pods}).filter(pod, self.nodes[node]):
                return found
        return []

    def is_curable(self, pod: Object, node: str, reasons: list[str]) -> bool:
        asked = requests(pod)
        fits = [f"Insufficient {name}" for name, amount in asked.items() if amount <= has(self.nodes[node], name)]
        return all(each in (*CURABLE, *fits) for each in reasons)

    def overdrawn(self, pods: list[Object]) -> list[bool]:
        left = {name: each["status"]["disruptionsAllowed"] for name, each in self.budgets.items()}
        found = []
        for pod in pods:
            hurts = False
            for name, each in self.budgets.items():
                wanted = each["spec"]["selector"]["matchLabels"]
                is_selected = bool(wanted) and wanted.items() <= pod["metadata"]["labels"].items()
                if is_selected and name_of(pod) not in each["status"]["disruptedPods"]:
                    left[name] -= 1
                    hurts = hurts or left[name] < 0
            found.append(hurts)
        return found

    def victims(self, pod: Object, node: str) -> tuple[list[Object], int] | list[str]:
        there = self.on(node)
        lower = sorted((each for each in there if priority(each) < priority(pod)), key=importance)
        if not lower:
            return ["No preemption victims found for incoming pod"]
        kept = [each for each in there if each not in lower]
        if found := self.reasons(pod, node, kept):
            return found
        hurts = self.overdrawn(lower)
        victims, violations = [], 0
        for group in (True, False):
            for each, is_hurt in zip(lower, hurts, strict=True):
                if is_hurt is not group:
                    continue
                if self.reasons(pod, node, [*kept, each]):
                    victims.append(each)
                    violations += group
                else:
                    kept.append(each)
        return sorted(victims, key=importance), violations

    def preempt(self, pod: Object) -> Found:
        counts: Counter[str] = Counter()
        candidates = []
        for node in sorted(self.nodes):
            if not self.is_curable(pod, node, self.reasons(pod, node, self.on(node))):
                counts["Preemption is not helpful for scheduling"] += 1
                continue
            found = self.victims(pod, node)
            if isinstance(found, list):
                counts.update(found)
                continue
            victims, violations = found
            highest = priority(victims[0])
            started = min(start(each) for each in victims if priority(each) == highest)
            rules = (violations, highest, sum(priority(each) + 2**31 for each in victims), len(victims))
            candidates.append((rules, -started, node, tuple(map(name_of, victims))))
        if candidates:
            *_, node, chosen = min(candidates)
            return Found(node, chosen, "")
        listed = ", ".join(sorted(f"{times} {text}" for text, times in counts.items()))
        return Found("", (), f"preemption: 0/{len(self.nodes)} nodes are available: {listed}.")


def name_of(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def priority(pod: Object) -> int:
    return int(pod["spec"]["priority"])


def start(pod: Object) -> int:
    return int(pod["status"].get("startTime", f"2026-01-01T00:00:9{UNSTARTED}Z")[-3:-1])


def importance(pod: Object) -> tuple[int, int, str]:
    return -priority(pod), start(pod), name_of(pod)


# -- what happens

nodes = st.builds(
    lambda name, cpu, pods, cordoned: a_node(name, cpu=cpu, pods=pods, cordoned=cordoned),
    st.sampled_from(NODES),
    st.sampled_from(["1", "2", "4"]),
    st.sampled_from(["2", "4", "9"]),
    st.integers(0, 9).map(lambda drawn: drawn == 0),
)


@st.composite
def pods(draw: st.DrawFn, name: str, priorities: tuple[int, ...]) -> Object:
    ports = [{"containerPort": 1, "hostPort": 80}] if draw(st.integers(0, 4)) == 0 else []
    started = draw(st.integers(0, 12))
    return a_pod(
        name,
        {"cpu": draw(st.sampled_from(["250m", "500m", "1", "2"]))},
        priority=draw(st.sampled_from(priorities)),
        labels=draw(st.sampled_from([{}, {"app": "web"}, {"app": "db"}])),
        ports=ports,
        status={"startTime": f"2026-01-01T00:00:{started:02}Z"} if started < 12 else {},
    )


class Both:
    def __init__(self) -> None:
        self.slow = Slow()
        self.ours = Cluster(preempts=True)

    def apply_node(self, node: Object) -> None:
        self.slow.nodes[node["metadata"]["name"]] = node
        self.ours.apply(node)

    def run(self, pod: Object, node: str) -> None:
        self.slow.pods[name_of(pod)] = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        self.ours.bind(pod, node)

    def stop(self, name: str) -> None:
        if self.slow.pods.pop(name, None):
            self.ours.matrix.pod_removed(f"uid-{name}")

    def budget(self, name: str, allowed: int, labels: dict[str, str], underway: list[str]) -> None:
        self.slow.budgets[name] = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(underway, "then")},
        }
        self.ours.cluster.applied(POD_DISRUPTION_BUDGETS, self.slow.budgets[name])

    def promise(self, pod: Object, node: str) -> None:
        self.slow.promised[name_of(pod)] = (pod, node)
        self.ours.nominator.nominate(self.ours.pod(pod), node)

    def check(self, pod: Object) -> None:
        if not self.slow.nodes:
            return
        fits = any(not self.slow.reasons(pod, node, self.slow.on(node)) for node in self.slow.nodes)
        outcome = self.ours.cycle.decide(self.ours.pod(pod))
        assert isinstance(outcome, ScheduleResult) is fits, (pod, outcome)
        if fits:
            return
        outcome = self.ours.cycle.place(self.ours.pod(pod))
        assert not isinstance(outcome, ScheduleResult)
        found = outcome.nominated
        expected = self.slow.preempt(pod)
        if found is None:
            assert expected == Found("", (), outcome.message.partition("no new claims to deallocate, ")[2])
        else:
            assert (found.node_name, tuple(each.name for each in found.victims)) == expected[:2]


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_both_choose_the_same_node_and_victims_whatever_happened_before(data: st.DataObject) -> None:
    both = Both()
    for name in data.draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=4, unique=True)):
        both.apply_node({**data.draw(nodes), "metadata": {"name": name, "labels": {}}})
    asking = [data.draw(pods(f"p{i}", (1, 5, 10))) for i in range(2)]  # again and again: ours remembers them
    steps = st.sampled_from(["run", "run", "run", "stop", "node", "budget", "promise"])
    for i, step in enumerate(data.draw(st.lists(steps, min_size=5, max_size=25))):
        known = sorted(both.slow.nodes)
        if step == "run":
            both.run(data.draw(pods(f"v{i}", (-1, 0, 1, 5))), data.draw(st.sampled_from(known)))
        elif step == "stop" and both.slow.pods:
            both.stop(data.draw(st.sampled_from(sorted(both.slow.pods))))
        elif step == "node":
            both.apply_node(data.draw(nodes))
        elif step == "budget":
            labels = data.draw(st.sampled_from([{"app": "web"}, {"app": "db"}, {}]))
            underway = data.draw(st.lists(st.sampled_from(["v0", "v1", "v2"]), max_size=2))
            both.budget(data.draw(st.sampled_from("xy")), data.draw(st.integers(0, 2)), labels, underway)
        elif step == "promise":
            both.promise(data.draw(pods(f"n{i % 3}", (5, 10))), data.draw(st.sampled_from(["", *known])))
        for pod in asking:
            both.check(pod)
    assert both.ours.matrix.ignored_objects == {}
