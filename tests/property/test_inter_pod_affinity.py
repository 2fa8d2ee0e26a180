"""Affinity between pods against a slow, obvious reference: the same result after any changes of a cluster."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_affinity as reference
from clusters import Cluster, a_node, a_pod
from headgate.kube.api_resources import NAMESPACES
from headgate.scheduling.config.types import InterPodAffinityArgs
from headgate.scheduling.framework.fit_error import fit_error
from headgate.scheduling.framework.interface import ScheduleResult, Unplaced
from headgate.scheduling.plugins.interpodaffinity.plugin import InterPodAffinity

Object = dict[str, Any]

SPACES = ["blue", "red"]
CROWD = [a_node(f"z{i}", labels={"zone": f"z{i // 2}", "rack": "1"} if i % 4 else {}) for i in range(16)]
"""Nodes that always exist, so that a domain is a small part of the cluster."""

node_names = st.sampled_from(["a", "b", "c", "d", "z1", "z2"])
spaces = st.sampled_from(SPACES)
node_labels = st.fixed_dictionaries(
    {}, optional={"zone": st.sampled_from(["x", "y", "z0"]), "rack": st.sampled_from(["2", "3"])}
)
space_labels = st.dictionaries(st.sampled_from(["team", "env"]), st.sampled_from(["p", "q"]), max_size=2)
pod_labels = st.sampled_from([{}, {"app": "u"}, {"app": "v"}, {"app": "u", "tier": "v"}, {"tier": "u"}])
expressions = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(["app", "tier", "team"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["u", "v", "p"]), min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["app", "tier", "team"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
selectors = st.one_of(
    st.sampled_from([{"matchLabels": {"app": "u"}}, {"matchLabels": {"app": "v"}}, {}, None]),
    st.builds(lambda found: {"matchExpressions": found}, st.lists(expressions, min_size=1, max_size=2)),
)
space_selectors = st.one_of(
    st.builds(lambda labels: {"matchLabels": labels}, space_labels),
    st.builds(lambda found: {"matchExpressions": [found]}, expressions),
)
terms = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["zone", "zone", "rack", "nothing"]), "labelSelector": selectors},
    optional={"namespaces": st.lists(spaces, max_size=2), "namespaceSelector": space_selectors},
)
weighted = st.builds(lambda weight, term: {"weight": weight, "podAffinityTerm": term}, st.integers(1, 100), terms)
rules = st.tuples(
    st.sampled_from(["podAffinity", "podAntiAffinity", "podAntiAffinity"]),
    st.one_of(
        st.tuples(st.just(reference.REQUIRED), terms),
        st.tuples(st.just(reference.PREFERRED), weighted),
    ),
)


def gather(drawn: list[tuple[str, tuple[str, Object]]]) -> Object:
    found: Object = {}
    for kind, (how, term) in drawn:
        found.setdefault(kind, {}).setdefault(how, []).append(term)
    return found


affinities: st.SearchStrategy[Object] = st.one_of(st.just({}), st.lists(rules, min_size=1, max_size=3).map(gather))
pods = st.tuples(spaces, pod_labels, affinities)
nodes = st.builds(
    lambda name, labels, cordoned: a_node(name, labels=labels, cordoned=cordoned),
    node_names,
    node_labels,
    st.integers(0, 5).map(lambda drawn: drawn == 0),
)
numbers = st.integers(0, 5)
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("node"), nodes),
        st.tuples(st.just("node gone"), node_names),
        st.tuples(st.just("pod"), st.tuples(numbers, node_names, pods)),
        st.tuples(st.just("pod"), st.tuples(numbers, node_names, pods)),
        st.tuples(st.just("relabelled"), st.tuples(numbers, pod_labels)),
        st.tuples(st.just("pod gone"), numbers),
        st.tuples(st.just("space"), st.tuples(spaces, space_labels)),
        st.tuples(st.just("space gone"), spaces),
        st.tuples(st.just("place"), numbers),
        st.tuples(st.just("place"), numbers),
    ),
    max_size=12,
)


def make(name: str, drawn: tuple[str, dict[str, str], Object]) -> Object:
    space, labels, affinity = drawn
    pod = a_pod(name, labels=labels, affinity=affinity)
    pod["metadata"]["namespace"] = space
    return pod


class Both:
    """A cluster in two forms: in the node matrix, and as plain dictionaries for the reference."""

    def __init__(self, hard: int, ignore: bool) -> None:
        self.hard, self.ignore = hard, ignore
        self.cluster = Cluster(
            plugins={
                "multiPoint": {
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": name} for name in NEEDED],
                }
            },
            pluginConfig=[
                {
                    "name": "InterPodAffinity",
                    "args": {"hardPodAffinityWeight": hard, "ignorePreferredTermsOfExistingPods": ignore},
                }
            ],
        )
        self.plain = reference.Cluster({}, {}, {})
        self.placed = 0

    def happen(self, kind: str, what: Any, asked: list[Object]) -> None:
        matrix, around, plain = self.cluster.matrix, self.cluster.cluster, self.plain
        match kind:
            case "node":
                plain.nodes[what["metadata"]["name"]] = what
                self.cluster.apply(what)
            case "node gone":
                plain.nodes.pop(what, None)
                matrix.node_removed(what)
            case "pod":
                number, node, drawn = what
                wire = make(f"p{number}", drawn)
                plain.pods[f"uid-p{number}"] = (node, wire)
                self.cluster.bind(wire, node)
            case "relabelled":
                number, labels = what
                if f"uid-p{number}" in plain.pods:
                    node, wire = plain.pods[f"uid-p{number}"]
                    wire = {**wire, "metadata": {**wire["metadata"], "labels": labels}}
                    plain.pods[f"uid-p{number}"] = (node, wire)
                    self.cluster.bind(wire, node)
            case "pod gone":
                plain.pods.pop(f"uid-p{what}", None)
                matrix.pod_removed(f"uid-p{what}")
            case "space":
                plain.namespaces[what[0]] = what[1]
                around.applied(NAMESPACES, {"metadata": {"name": what[0], "labels": what[1]}})
            case "space gone":
                plain.namespaces.pop(what, None)
                around.removed(NAMESPACES, "", what)
            case "place":
                self.place(asked[what % len(asked)])

    def place(self, wire: Object) -> None:
        self.placed += 1
        name = f"q{self.placed}"
        wire = {**wire, "metadata": {**wire["metadata"], "name": name, "uid": f"uid-{name}"}}
        outcome = self.cluster.cycle.place(self.cluster.pod(wire))
        if isinstance(outcome, ScheduleResult):
            self.plain.pods[f"uid-{name}"] = (outcome.node_name, wire)
            # The API server shows the pod on its node.
            self.cluster.bind(wire, outcome.node_name)

    def check(self, wire: Object) -> None:
        plain = self.plain
        if not plain.nodes:
            return
        pod = self.cluster.pod(wire)
        found = self.cluster.cycle.decide(pod)
        open_nodes = {name: each for name, each in plain.nodes.items() if not each["spec"].get("unschedulable")}
        why = {name: reference.reject(plain, wire, node) for name, node in open_nodes.items()}
        feasible = sorted(name for name, each in why.items() if each is None)
        if not feasible:
            reasons = Counter(each for each in why.values() if each is not None)
            cordoned = len(plain.nodes) - len(open_nodes)
            counts = [reasons, Counter({"node(s) were unschedulable": cordoned}) if cordoned else Counter()]
            assert isinstance(found, Unplaced)
            assert found.message == fit_error(len(plain.nodes), counts)
            wanted = {name for name, each in why.items() if each != reference.AFFINITY}
            assert set(found.resolvable) == wanted
            return
        raw = {name: reference.raw_score(plain, wire, plain.nodes[name], self.hard, self.ignore) for name in feasible}
        expected = reference.scaled(raw)
        assert isinstance(found, ScheduleResult)
        assert self.cluster.cycle.scores(pod) == expected
        assert found.node_name == min(expected, key=lambda name: (-expected[name], name))

    def check_trials(self, wire: Object, guest: Object) -> None:
        """The result without the pods of a node, and with an added pod."""
        row = self.cluster.matrix.row_of("a")
        if row is None or self.plain.nodes["a"]["spec"].get("unschedulable"):
            return
        pod, node = self.cluster.pod(wire), self.plain.nodes["a"]
        gone = list(self.cluster.matrix.pods_on(row).values())
        left = {uid: each for uid, each in self.plain.pods.items() if uid not in {pod.uid for pod in gone}}
        found = [each.text for each in self.cluster.cycle.probe(pod, row, removed=gone)]
        expected = reference.reject(self.plain._replace(pods=left), wire, node)
        assert found == ([expected] if expected else [])
        if not wire["spec"].get("affinity") or not any(map(any_terms, wire["spec"]["affinity"].values())):
            return  # terms that no pod on a node has do not concern a pod without terms, as in kube-scheduler
        found = [each.text for each in self.cluster.cycle.probe(pod, row, added=[self.cluster.pod(guest)])]
        more = self.plain.pods | {guest["metadata"]["uid"]: ("a", guest)}
        expected = reference.reject(self.plain._replace(pods=more), wire, node)
        assert found == ([expected] if expected else [])


def any_terms(rules: Object) -> bool:
    return any(rules.values())


NEEDED = ("PrioritySort", "DefaultBinder", "NodeUnschedulable", "InterPodAffinity")


@settings(max_examples=300, deadline=None)
@given(
    st.lists(nodes, min_size=1, max_size=4),
    st.lists(st.tuples(node_names, pods), max_size=3),
    st.lists(pods, min_size=1, max_size=3),
    happenings,
    pods,
    st.sampled_from([0, 1, 7]),
    st.booleans(),
)
def test_pods_near_pods_are_judged_as_by_looking_at_every_pod_again(
    first: list[Object],
    there: list[tuple[str, Any]],
    comers: list[Any],
    steps: list[tuple[str, Any]],
    promised: Any,
    hard: int,
    ignore: bool,
) -> None:
    both = Both(hard, ignore)
    asked = [make(f"asked-{i}", drawn) for i, drawn in enumerate(comers)]
    guest = make("guest", promised)
    for each in (*first, *CROWD):
        both.happen("node", each, asked)
    for i, (node, drawn) in enumerate(there):
        both.happen("pod", (i, node, drawn), asked)
    for kind, what in [("start", None), *steps]:
        both.happen(kind, what, asked)
        for wire in asked:
            both.check(wire)
        for wire in asked:
            both.check_trials(wire, guest)


@pytest.mark.parametrize("most", [3, 7, 11, 100])
def test_scores_are_rounded_as_kube_scheduler_does(most: int) -> None:
    plugin = InterPodAffinity(InterPodAffinityArgs(), Cluster().cluster)
    raw = np.arange(most + 1)
    expected = [int(100.0 * (float(each) / float(most))) for each in range(most + 1)]
    assert plugin.normalize(raw, plugin.scale(raw)).tolist() == expected
