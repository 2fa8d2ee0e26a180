"""Which volume a claim gets, and where: the pool and the filter against a scan of all volumes."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters import Cluster, a_node, a_pod
from headgate.kube import quantity
from headgate.scheduling.framework.interface import ScheduleResult
from headgate.scheduling.volumes.pod_volume_claims import PodVolumeClaims, read_pod_volume_claims
from storage import HOST, ZONE, Object, Shown, a_claim, a_class, a_volume, claims, hide, show

NODES: list[Object] = [
    a_node("n1", labels={HOST: "n1", ZONE: "a"}),
    a_node("n2", labels={HOST: "n2", ZONE: "b"}),
    a_node("n3", labels={HOST: "n3"}),
]
SIZES = ("1Gi", "2Gi", "1025Mi", "3Gi")


def one_of(key: str, *values: str) -> st.SearchStrategy[Object]:
    chosen = st.lists(st.sampled_from(values), min_size=1)
    return st.builds(lambda each: {"key": key, "operator": "In", "values": each}, chosen)


expressions = st.one_of(
    one_of(HOST, "n1", "n2", "n9"),
    one_of(ZONE, "a", "b"),
    st.just({"key": ZONE, "operator": "Exists"}),
    st.just({"key": ZONE, "operator": "NotIn", "values": ["a"]}),
)
terms = st.builds(lambda each: {"matchExpressions": each}, st.lists(expressions, min_size=1, max_size=2))
affinities = st.one_of(
    st.none(), st.builds(lambda each: {"required": {"nodeSelectorTerms": each}}, st.lists(terms, max_size=2))
)


@st.composite
def volumes(draw: st.DrawFn) -> dict[str, Any]:
    more: dict[str, Any] = {"size": draw(st.sampled_from(SIZES)), "on_class": draw(st.sampled_from(["s", "t"]))}
    if (affinity := draw(affinities)) is not None:
        more["nodeAffinity"] = affinity
    match draw(st.integers(0, 9)):
        case 0:
            more["volumeMode"] = "Block"
        case 1:
            more["accessModes"] = ["ReadOnlyMany"]
        case 2:
            more["phase"] = "Released"
        case 3 | 4:
            more |= {"claim": draw(st.sampled_from(["c0", "c1"])), "claim_uid": draw(st.sampled_from(["", "uid-c0"]))}
        case 5:
            more["labels"] = {"tier": "fast"}
    return more


@st.composite
def claims_drawn(draw: st.DrawFn) -> dict[str, Any]:
    more: dict[str, Any] = {"size": draw(st.sampled_from(SIZES)), "on_class": draw(st.sampled_from(["s", "t"]))}
    if draw(st.integers(0, 5)) == 0:
        more["selector"] = {"matchLabels": {"tier": "fast"}}
    return more


def size(text: str) -> int:
    return quantity.amount(text).nano


def reaches(volume: Object, labels: dict[str, str]) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required is None or any(
        all(meets(each, labels) for each in term["matchExpressions"]) for term in required["nodeSelectorTerms"]
    )


def meets(each: Object, labels: dict[str, str]) -> bool:
    match each["operator"]:
        case "In":
            return labels.get(each["key"]) in each["values"]
        case "NotIn":
            return labels.get(each["key"]) not in each["values"]
        case _:
            return each["key"] in labels


def reference(wanted: list[Object], there: list[Object], labels: dict[str, str]) -> dict[str, str] | None:
    """By claim its volume on a node with these labels; nothing if one of them has none. A walk through everything."""
    chosen: dict[str, str] = {}
    for claim in sorted(wanted, key=lambda each: size(each["spec"]["resources"]["requests"]["storage"])):
        fitting: list[Object] = []
        for volume in sorted(there, key=lambda each: str(each["metadata"]["name"])):
            if volume["metadata"]["name"] in chosen.values() or not is_large_enough(volume, claim):
                continue
            ref = volume["spec"].get("claimRef")
            if ref is None:
                if is_free_for(volume, claim) and reaches(volume, labels):
                    fitting.append(volume)
            elif ref["name"] == claim["metadata"]["name"] and ref["uid"] in ("", claim["metadata"]["uid"]):
                fitting = [volume] if reaches(volume, labels) else []
                break
        if not fitting:
            return None
        smallest = min(fitting, key=lambda each: (size(each["spec"]["capacity"]["storage"]), each["metadata"]["name"]))
        chosen[claim["metadata"]["name"]] = smallest["metadata"]["name"]
    return chosen


def is_large_enough(volume: Object, claim: Object) -> bool:
    """And of the class and kind that is asked for."""
    of, asked_for = volume["spec"], claim["spec"]
    large = size(of["capacity"]["storage"]) >= size(asked_for["resources"]["requests"]["storage"])
    return large and of["storageClassName"] == asked_for["storageClassName"] and "volumeMode" not in of


def is_free_for(volume: Object, claim: Object) -> bool:
    selected = "selector" not in claim["spec"] or volume["metadata"]["labels"].get("tier") == "fast"
    return selected and volume["status"]["phase"] == "Available" and "ReadWriteOnce" in volume["spec"]["accessModes"]


@settings(max_examples=150)
@given(
    st.lists(claims_drawn(), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 5), st.none() | volumes()), max_size=14),
)
def test_claims_get_the_volumes_that_a_walk_through_all_of_them_finds(
    wanted: list[dict[str, Any]], steps: list[tuple[int, dict[str, Any] | None]]
) -> None:
    cluster = Cluster(*NODES)
    asked_for = [a_claim(f"c{i}", **each) for i, each in enumerate(wanted)]
    show(cluster, a_class("s"), a_class("t"), *asked_for)
    there: dict[str, Shown] = {}
    for revision, (number, more) in enumerate(steps):
        name = f"v{number}"
        if more is not None:
            there[name] = a_volume(name, revision=str(revision), **more)
            show(cluster, there[name])
        elif name in there:
            hide(cluster, there.pop(name))
    pod = cluster.pod(a_pod("p", volumes=claims(*(f"c{i}" for i in range(len(wanted))))))
    volumes_now = [wire for _, wire in there.values()]
    expected = {
        node["metadata"]["name"]: reference([wire for _, wire in asked_for], volumes_now, node["metadata"]["labels"])
        for node in NODES
    }
    found = read_pod_volume_claims(cluster.cluster.storage, pod)
    assert isinstance(found, PodVolumeClaims)
    for node in NODES:
        match = found.match(node["metadata"]["labels"])
        chosen = expected[node["metadata"]["name"]]
        assert (chosen is None) is bool(match.unmatched)
        if chosen is not None:
            assert {claim.name: volume.name for claim, volume in match.found} == chosen
    feasible = {name for name, chosen in expected.items() if chosen is not None}
    placed = cluster.cycle.decide(pod)
    assert (placed.node_name in feasible) if isinstance(placed, ScheduleResult) else not feasible
    if isinstance(placed, ScheduleResult):
        assert set(cluster.cycle.scores(pod)) == feasible
