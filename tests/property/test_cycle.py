"""The scheduling cycle against a slow, obvious scheduler: the same result for every pod after any changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters import Cluster, a_node, a_pod, node_of
from headgate.scheduling.framework import fit_error
from headgate.scheduling.framework.interface import ScheduleResult, Unplaced
from reference_scheduler import Answer, Points, Reference, has, requests

Object = dict[str, Any]

POINTS: Points = ((0, 0), (33, 7), (70, 2), (100, 10))
LINE = {"shape": [{"utilization": percent, "score": score} for percent, score in POINTS]}
STRATEGIES: dict[str, Object] = {
    "LeastAllocated": {"type": "LeastAllocated"},
    "MostAllocated": {"type": "MostAllocated"},
    "RequestedToCapacityRatio": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": LINE},
}

names = st.sampled_from(["a", "b", "c", "d", "e", "f"])
labels = st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["x", "y", "7"]), max_size=2)
effects = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
taint = st.fixed_dictionaries({"key": st.sampled_from(["k", "l"]), "value": st.just("v"), "effect": effects})
image = st.tuples(st.sampled_from([("app:latest",), ("web:1", "web:2")]), st.sampled_from([10**7, 10**8, 3 * 10**9]))

# An image has the same size on all nodes: with different sizes the score would depend on the order of the nodes.
SIZES = {("app:latest",): 3 * 10**8, ("web:1", "web:2"): 2 * 10**9}


@st.composite
def nodes(draw: st.DrawFn, name: str | None = None) -> Object:
    allocatable: Object = {"example.com/gpu": draw(st.integers(0, 3))} if draw(st.booleans()) else {}
    return a_node(
        draw(names) if name is None else name,
        cpu=draw(st.sampled_from(["0", "1", "1500m", "4"])),
        memory=draw(st.sampled_from(["0", "1Gi", "3Gi", "1000001k"])),
        pods=str(draw(st.integers(0, 4))),
        labels=draw(labels),
        taints=draw(st.lists(taint, max_size=2)),
        cordoned=draw(st.integers(0, 7)) == 0,
        images=[(names, SIZES[names]) for names in draw(st.sets(st.sampled_from(list(SIZES)), max_size=2))],
        allocatable=allocatable,
    )


asked = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "100m", "500m", "1"]),
        "memory": st.sampled_from(["0", "100Mi", "1Gi"]),
        "example.com/gpu": st.sampled_from(["0", "1", "2"]),
    },
)
expression = st.one_of(
    st.builds(lambda v: {"key": "zone", "operator": "In", "values": v}, st.lists(st.sampled_from("xy7"), min_size=1)),
    st.builds(
        lambda v: {"key": "disk", "operator": "NotIn", "values": v}, st.lists(st.sampled_from("xy7"), min_size=1)
    ),
    st.just({"key": "disk", "operator": "Exists"}),
    st.just({"key": "zone", "operator": "DoesNotExist"}),
    st.just({"key": "zone", "operator": "Gt", "values": ["6"]}),
)
term = st.builds(lambda found: {"matchExpressions": found}, st.lists(expression, max_size=2))
port = st.fixed_dictionaries(
    {"containerPort": st.just(1), "hostPort": st.sampled_from([80, 81])},
    optional={"hostIP": st.sampled_from(["127.0.0.1", "10.0.0.1"]), "protocol": st.sampled_from(["TCP", "UDP"])},
)
container = st.fixed_dictionaries(
    {"image": st.sampled_from(["app", "web:1", "gone"]), "resources": st.fixed_dictionaries({"requests": asked})},
    optional={"ports": st.lists(port, max_size=1)},
)
early = st.fixed_dictionaries(
    {"image": st.just("app"), "resources": st.fixed_dictionaries({"requests": asked})},
    optional={"restartPolicy": st.just("Always"), "ports": st.lists(port, max_size=1)},
)


@st.composite
def specs(draw: st.DrawFn) -> Object:
    spec: Object = {"containers": draw(st.lists(container, min_size=1, max_size=2))}
    if draw(st.booleans()):
        spec["initContainers"] = draw(st.lists(early, max_size=2))
    if draw(st.integers(0, 3)) == 0:
        spec["overhead"] = {"cpu": "50m"}
    if draw(st.booleans()):
        spec["tolerations"] = draw(
            st.lists(st.sampled_from([{"key": "k", "operator": "Exists"}, {"operator": "Exists"}]), max_size=1)
        )
    if draw(st.integers(0, 2)) == 0:
        spec["nodeSelector"] = draw(labels)
    rules: Object = {}
    if draw(st.integers(0, 2)) == 0:
        rules["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": draw(st.lists(term, max_size=2))
        }
    if draw(st.integers(0, 2)) == 0:
        rules["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": weight, "preference": preference}
            for weight, preference in draw(st.lists(st.tuples(st.integers(1, 100), term), min_size=1, max_size=2))
        ]
    if rules:
        spec["affinity"] = {"nodeAffinity": rules}
    return spec


class Both:
    """A cluster in two forms: in the node matrix, and as plain lists for the reference."""

    def __init__(self, strategy: str, percentage: int = 100) -> None:
        self.strategy = strategy
        fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": STRATEGIES[strategy]}}
        self.cluster = Cluster(percentage=percentage, pluginConfig=[fit])
        self.nodes: dict[str, Object] = {}
        self.placed: dict[str, tuple[str, Object]] = {}

    def reference(self) -> Reference:
        pods: dict[str, list[Object]] = {}
        for name, pod in self.placed.values():
            pods.setdefault(name, []).append(pod)
        return Reference(list(self.nodes.values()), pods)

    def apply_node(self, node: Object) -> None:
        self.nodes[node["metadata"]["name"]] = node
        self.cluster.matrix.node_applied(node_of(node))

    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cluster.matrix.node_removed(name)

    def remove_pod(self, uid: str) -> None:
        self.placed.pop(uid, None)
        self.cluster.matrix.pod_removed(uid)

    def check(self, wire: Object) -> None:
        """Both give the same result; then the pod is placed in both."""
        pod = self.cluster.pod(wire)
        if not self.nodes:
            assert self.cluster.cycle.decide(pod) == Unplaced(fit_error.NO_NODES)
            return
        said = self.reference().schedule(wire, self.strategy, POINTS)
        assert self.cluster.cycle.scores(pod) == said.scores
        got = self.cluster.cycle.place(pod)
        self.compare(got, said)
        if isinstance(got, ScheduleResult):
            self.placed[pod.uid] = (got.node_name, wire)
            # Whether the API server has shown it already makes no difference.
            if len(self.placed) % 2:
                self.cluster.bind(wire, got.node_name)

    def compare(self, got: ScheduleResult | Unplaced, said: Answer) -> None:
        if said.node is not None:
            assert isinstance(got, ScheduleResult)
            assert (got.node_name, got.feasible) == (said.node, len(said.scores))
            return
        assert isinstance(got, Unplaced)
        counted = ", ".join(sorted(f"{times} {reason}" for reason, times in said.reasons.items()))
        assert got.message == f"0/{len(self.nodes)} nodes are available: {counted}."

    def check_sums(self) -> None:
        """No node has more than its allocatable resources, unless it shrank or another client bound pods to it."""
        reference = self.reference()
        matrix = self.cluster.matrix
        for node in reference.nodes:
            row = matrix.row_of(node["metadata"]["name"])
            assert row is not None
            on = reference.pods.get(node["metadata"]["name"], [])
            for name in ("cpu", "memory", "example.com/gpu"):
                used = sum(requests(pod).get(name, 0) for pod in on)
                column = matrix.columns.column(name)
                assert int(matrix.columns.free[column, row]) == has(node, name) - used
            assert len(matrix.pods_on(row)) == len(on)


@st.composite
def happenings(draw: st.DrawFn) -> list[tuple[str, Any]]:
    templates = draw(st.lists(specs(), min_size=1, max_size=3))
    # Most nodes are equal, so that names decide.
    machines = draw(st.lists(nodes(), min_size=1, max_size=3))

    def a_machine() -> Object:
        machine: Object = draw(st.sampled_from(machines))
        return {**machine, "metadata": {**machine["metadata"], "name": draw(names)}}

    steps: list[tuple[str, Any]] = [("node", a_machine()) for _ in range(draw(st.integers(1, 6)))]
    for i in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["pod"] * 6 + ["node", "node gone", "pod gone", "foreign"]))
        match kind:
            case "pod" | "foreign":
                spec = draw(st.sampled_from(templates))
                wire = {"metadata": {"name": f"p{i}", "namespace": "n", "uid": f"u{i}"}, "spec": spec}
                steps.append((kind, (wire, draw(names)) if kind == "foreign" else wire))
            case "node":
                steps.append((kind, a_machine()))
            case "node gone":
                steps.append((kind, draw(names)))
            case "pod gone":
                steps.append((kind, f"u{draw(st.integers(0, i))}"))
    return steps


@settings(max_examples=150, deadline=None)
@given(happenings(), st.sampled_from(list(STRATEGIES)))
def test_the_cycle_equals_a_slow_scheduler(steps: list[tuple[str, Any]], strategy: str) -> None:
    both = Both(strategy)
    for kind, what in steps:
        match kind:
            case "pod":
                both.check(what)
            case "node":
                both.apply_node(what)
            case "node gone":
                both.remove_node(what)
            case "pod gone":
                both.remove_pod(what)
            case "foreign":
                wire, name = what
                both.cluster.bind(wire, name)
                both.placed[wire["metadata"]["uid"]] = (name, wire)
        both.check_sums()


@settings(max_examples=60, deadline=None)
@given(happenings())
def test_the_same_events_give_the_same_plan(steps: list[tuple[str, Any]]) -> None:
    def plan() -> list[Any]:
        both, out = Both("LeastAllocated", percentage=0), []
        for kind, what in steps:
            if kind == "node":
                both.apply_node(what)
            elif kind == "node gone":
                both.remove_node(what)
            elif kind == "pod":
                out.append(both.cluster.cycle.place(both.cluster.pod(what)))
        return out

    first, second = plan(), plan()
    assert [str(each) for each in first] == [str(each) for each in second]


@settings(max_examples=60, deadline=None)
@given(st.lists(nodes(), min_size=1, max_size=6), st.lists(specs(), min_size=1, max_size=3), st.data())
def test_no_node_is_given_more_than_it_has(found: list[Object], templates: list[Object], data: st.DataObject) -> None:
    both = Both("MostAllocated")
    for node in found:
        both.apply_node(node)
    for i in range(12):
        spec = data.draw(st.sampled_from(templates))
        pod = both.cluster.pod({"metadata": {"name": f"p{i}", "namespace": "n", "uid": f"u{i}"}, "spec": spec})
        both.cluster.cycle.place(pod)
    matrix = both.cluster.matrix
    assert (matrix.columns.free[:, : matrix.size] >= 0).all()


def test_the_reference_detects_a_wrong_choice() -> None:
    reference = Reference([a_node("a", cpu="1"), a_node("b", cpu="4")], {})
    answer = reference.schedule(a_pod("p", {"cpu": "2"}))
    assert answer.node == "b"
    assert answer.reasons == Counter({"Insufficient cpu": 1})
