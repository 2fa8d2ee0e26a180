"""Topology spreading against a slow, obvious reference, after any changes of nodes, pods and the objects that select
them.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters import Cluster, a_node, a_pod
from headgate.kube.api_resources import REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS
from headgate.scheduling.framework.interface import ScheduleResult
from headgate.scheduling.framework.scheduling_cycle import SchedulingCycle
from headgate.scheduling.plugins.podtopologyspread.plugin import NAME
from reference_scheduler import Reference
from reference_spreading import HOSTNAME, ZONE, Spreading

Object = dict[str, Any]

NAMES = ["a", "b", "c", "d", "e"]
RESOURCES = {
    "Service": SERVICES,
    "ReplicationController": REPLICATION_CONTROLLERS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
}
VERSIONS = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}


@st.composite
def nodes(draw: st.DrawFn) -> Object:
    name = draw(st.sampled_from(NAMES))
    labels = {
        ZONE: draw(st.sampled_from([None, "", "x", "y", "y"])),
        HOSTNAME: draw(st.sampled_from([name, name, "a", "same", None])),
        "rack": draw(st.sampled_from([None, "1", "2", "3"])),
    }
    taint = {"key": "k", "value": "v", "effect": draw(st.sampled_from(["NoSchedule", "PreferNoSchedule"]))}
    return a_node(
        name,
        cpu=draw(st.sampled_from(["1", "4", "4"])),
        labels={key: value for key, value in labels.items() if value is not None},
        taints=[taint] if draw(st.integers(0, 3)) == 0 else None,
    )


labels = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from(["web", "web", "db"]), "version": st.sampled_from(["1", "2"])}
)
selectors = st.one_of(
    st.builds(lambda found: {"matchLabels": found}, labels),
    st.just({"matchLabels": {"app": "web"}}),
    st.just({"matchExpressions": [{"key": "version", "operator": "NotIn", "values": ["2"]}]}),
    st.just({}),
    st.none(),
)
constraints = st.builds(
    lambda required, extra: required | {key: value for key, value in extra.items() if value is not None},
    st.fixed_dictionaries(
        {
            "maxSkew": st.integers(1, 3),
            "topologyKey": st.sampled_from([ZONE, HOSTNAME, "rack"]),
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        }
    ),
    st.fixed_dictionaries(
        {
            "labelSelector": selectors,
            "minDomains": st.sampled_from([None, None, 1, 2, 4]),
            "nodeAffinityPolicy": st.sampled_from([None, "Honor", "Ignore"]),
            "nodeTaintsPolicy": st.sampled_from([None, "Honor", "Ignore"]),
            "matchLabelKeys": st.sampled_from([None, None, ["version"], ["version", "gone"]]),
        }
    ),
)


@st.composite
def pods(draw: st.DrawFn, name: str, *, is_spread: bool) -> Object:
    spec: Object = {}
    if is_spread and draw(st.integers(0, 3)):
        spec["topologySpreadConstraints"] = draw(st.lists(constraints, min_size=1, max_size=3))
    if draw(st.integers(0, 3)) == 0:
        spec["nodeSelector"] = {"rack": draw(st.sampled_from(["1", "2"]))}
    if draw(st.integers(0, 3)) == 0:
        spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
    if draw(st.integers(0, 5)) == 0:
        field = {"key": "metadata.name", "operator": "In", "values": [draw(st.sampled_from(NAMES))]}
        terms = [{"matchFields": [{**field, "values": [each]}]} for each in draw(st.sets(st.sampled_from(NAMES)))]
        if terms:
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            spec["affinity"] = {"nodeAffinity": required}
    made = a_pod(name, {"cpu": draw(st.sampled_from(["100m", "500m"]))}, labels=draw(labels), **spec)
    made["metadata"]["namespace"] = draw(st.sampled_from(["default", "default", "default", "other"]))
    if draw(st.integers(0, 1)):
        kind = draw(st.sampled_from(list(VERSIONS)))
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": VERSIONS[kind], "kind": kind, "name": draw(st.sampled_from("rs")), "controller": True}
        ]
    if not is_spread and draw(st.integers(0, 7)) == 0:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


@st.composite
def selecting(draw: st.DrawFn) -> Object:
    kind = draw(st.sampled_from(list(RESOURCES)))
    is_plain = kind in ("Service", "ReplicationController")
    chosen = draw(st.one_of(labels, st.none()) if is_plain else selectors.filter(lambda each: each is not None))
    if kind == "ReplicationController":
        chosen = chosen or {"app": "web"}
    metadata = {"name": draw(st.sampled_from("rs")), "namespace": draw(st.sampled_from(["default", "other"]))}
    return {"kind": kind, "metadata": metadata, "spec": {"selector": chosen}}


numbers = st.integers(0, 7)
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("node"), nodes()),
        st.tuples(st.just("node gone"), st.sampled_from(NAMES)),
        *[
            st.tuples(
                st.just("pod"),
                numbers.flatmap(lambda i: st.tuples(pods(f"p{i}", is_spread=False), st.sampled_from(NAMES))),
            )
        ]
        * 3,
        st.tuples(st.just("pod gone"), numbers),
        st.tuples(st.just("place"), numbers.flatmap(lambda i: pods(f"q{i}", is_spread=True))),
        st.tuples(st.just("selecting"), selecting()),
        st.tuples(st.just("selecting gone"), selecting()),
    ),
    max_size=14,
)
asked_pods = st.lists(pods("asked", is_spread=True), min_size=1, max_size=3)
defaults = st.one_of(
    st.none(),
    st.lists(
        constraints.map(lambda each: {k: v for k, v in each.items() if k not in ("labelSelector", "matchLabelKeys")}),
        max_size=2,
        unique_by=lambda each: (each["topologyKey"], each["whenUnsatisfiable"]),
    ),
)


class World:
    """The same cluster twice: in the matrix, and as wire objects."""

    def __init__(self, first: list[Object], chosen: list[Object] | None) -> None:
        only = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": NAME, "weight": 1}]}}
        args = {} if chosen is None else {"defaultingType": "List", "defaultConstraints": chosen}
        self.cluster = Cluster(plugins=only, pluginConfig=[{"name": NAME, "args": args}])
        self.defaults = chosen
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, tuple[Object, str]] = {}
        self.selecting: dict[tuple[str, str, str], Object] = {}
        for node in first:
            self.happen("node", node)

    def happen(self, kind: str, what: Any) -> None:
        match kind:
            case "node":
                self.nodes[what["metadata"]["name"]] = what
                self.cluster.apply(what)
            case "node gone":
                self.nodes.pop(what, None)
                self.cluster.matrix.node_removed(what)
            case "pod":
                pod, node = what
                self.pods[pod["metadata"]["name"]] = (pod, node)
                self.cluster.bind(pod, node)
            case "pod gone":
                self.pods.pop(f"p{what}", None)
                self.cluster.matrix.pod_removed(f"uid-p{what}")
            case "place":
                found = self.cluster.cycle.place(self.cluster.pod(what))
                if isinstance(found, ScheduleResult):
                    self.pods[what["metadata"]["name"]] = (what, found.node_name)
                    self.cluster.bind(what, found.node_name)
            case "selecting":
                self.selecting[_key(what)] = what
                self.cluster.cluster.applied(RESOURCES[what["kind"]], what)
            case "selecting gone":
                self.selecting.pop(_key(what), None)
                metadata = what["metadata"]
                self.cluster.cluster.removed(RESOURCES[what["kind"]], metadata["namespace"], metadata["name"])

    def check(self, pod: Object) -> None:
        wire, on = list(self.nodes.values()), {name: self._on(name) for name in self.nodes}
        reference = Spreading(wire, on, list(self.selecting.values()), self.defaults)
        others = Reference(wire, on)
        read, cycle, matrix = self.cluster.pod(pod), self.cluster.cycle, self.cluster.matrix
        feasible = []
        for node in wire:
            row = matrix.row_of(node["metadata"]["name"])
            assert row is not None
            said = others.filter(pod, node)
            spread = reference.reason(pod, node)
            if not said:
                assert [each.text for each in cycle.probe(read, row)] == ([spread] if spread else [])
            if not said and not spread:
                feasible.append(node)
        if wire:
            scores = cycle.scores(read)
            assert scores.keys() == {node["metadata"]["name"] for node in feasible}
            expected = reference.scores(pod, feasible)
            if len(feasible) > 1 and expected:
                assert scores == expected
            assert cycle.decide(read) == SchedulingCycle(matrix, cycle.plugins).decide(read)

    def _on(self, name: str) -> list[Object]:
        return [pod for pod, node in self.pods.values() if node == name]


def _key(wire: Object) -> tuple[str, str, str]:
    return wire["kind"], wire["metadata"]["namespace"], wire["metadata"]["name"]


@settings(max_examples=75, deadline=None)
@given(st.lists(nodes(), min_size=1, max_size=6), defaults, happenings, asked_pods)
def test_spreading_equals_a_full_recount(
    first: list[Object], chosen: list[Object] | None, steps: list[tuple[str, Any]], asked: list[Object]
) -> None:
    world = World(first, chosen)
    for pod in asked:
        world.check(pod)
    for kind, what in steps:
        world.happen(kind, what)
        for pod in asked:
            world.check(pod)


# -- many nodes, so that most of them are carried along and not asked about again ------------------------------------

MANY = 24
web = {"matchLabels": {"app": "web"}}


def _constraint(key: str, when: str, skew: int = 1) -> Object:
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": web}


HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
ASKED = [
    [_constraint(ZONE, HARD)],
    [_constraint(HOSTNAME, HARD, 2), _constraint("rack", SOFT)],
    [_constraint("rack", HARD), {**_constraint(ZONE, HARD), "minDomains": 3}],
    [_constraint("rack", HARD, 2), _constraint(ZONE, SOFT), _constraint(HOSTNAME, SOFT)],
]
rows = st.integers(0, MANY - 1)
moves = st.lists(
    st.one_of(
        *[st.tuples(st.just("pod"), rows)] * 5,
        *[st.tuples(st.just("pod gone"), rows)] * 3,
        st.tuples(st.just("full"), rows),
        st.tuples(st.just("moved"), rows),
        st.tuples(st.just("removed"), rows),
    ),
    max_size=20,
)


def _one_of_many(number: int, zone: int) -> Object:
    labels = {ZONE: f"zone-{zone}", HOSTNAME: f"node-{number}", "rack": f"rack-{number % 6}"}
    return a_node(f"node-{number}", labels=labels if number else {})


@settings(max_examples=25, deadline=None)  # each step asks all of many nodes anew
@given(moves)
def test_with_many_nodes_incremental_results_equal_a_full_recount(steps: list[tuple[str, int]]) -> None:
    """One pod on every node to begin with, so that domains are even, and any of them may become the smallest."""
    world = World([_one_of_many(number, number % 3) for number in range(MANY)], None)
    matrix, cycle = world.cluster.matrix, world.cluster.cycle
    there = [f"first-{number}" for number in range(MANY)]
    for number, name in enumerate(there):
        world.cluster.bind(a_pod(name, labels={"app": "web"}), f"node-{number}")
    for step, (kind, number) in enumerate(steps):
        match kind:
            case "pod":
                there.append(f"p{step}")
                world.cluster.bind(a_pod(f"p{step}", labels={"app": "web"}), f"node-{number}")
            case "pod gone" if there:
                matrix.pod_removed(f"uid-{there.pop(number % len(there))}")
            case "full":
                world.cluster.bind(a_pod(f"full-{step}", {"cpu": "4"}), f"node-{number}")
            case "moved":
                world.happen("node", _one_of_many(number, step % 3))
            case "removed":
                matrix.node_removed(f"node-{number}")
        for each in ASKED:
            pod = world.cluster.pod(a_pod("p", {"cpu": "1"}, labels={"app": "web"}, topologySpreadConstraints=each))
            anew = SchedulingCycle(matrix, cycle.plugins)
            assert cycle.decide(pod) == anew.decide(pod)
            assert cycle.scores(pod) == anew.scores(pod)
