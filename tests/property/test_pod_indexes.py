"""Indexes of pods on nodes against a scan of all pods: which pods match a selector, and which pods an affinity term
selects.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters import Cluster, a_pod
from headgate.kube.labels import Selector, from_label_selector
from headgate.scheduling.cache.existing_terms import ExistingTermIndex
from headgate.scheduling.cache.label_groups import LabelGroupIndex
from headgate.scheduling.cache.pod import PodInfo

Object = dict[str, Any]

SPACES = ["blue", "red"]
labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["u", "v", "w"]), max_size=2)
expressions = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["u", "v"]), min_size=1, max_size=2),
    ),
    st.just({"key": "app", "operator": "DoesNotExist"}),
)
selectors = st.one_of(
    st.builds(lambda found: {"matchExpressions": found}, st.lists(expressions, max_size=2)),
    st.builds(lambda found: {"matchLabels": found}, labels),
    st.none(),
)
terms = st.fixed_dictionaries(
    {"topologyKey": st.just("zone"), "labelSelector": selectors},
    optional={"namespaces": st.lists(st.sampled_from(SPACES), max_size=2), "namespaceSelector": selectors},
)
pods = st.builds(
    lambda space, found, deleting, listed: (space, found, deleting, listed),
    st.sampled_from(SPACES),
    labels,
    st.booleans(),
    st.lists(terms, max_size=2),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.tuples(st.integers(0, 2), pods)),
        st.tuples(st.just("go"), st.integers(0, 20)),
        st.tuples(st.just("ask"), st.tuples(selectors, st.one_of(st.none(), st.sets(st.sampled_from(SPACES))))),
    ),
    max_size=20,
)
READER = Cluster()


def read(number: int, drawn: tuple[str, dict[str, str], bool, list[Object]]) -> PodInfo:
    space, found, deleting, listed = drawn
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": listed}}
    wire = a_pod(f"p{number}", labels=found, affinity=rules)
    wire["metadata"]["namespace"] = space
    if deleting:
        wire["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return READER.pod(wire)


def by_looking(there: dict[int, tuple[int, PodInfo]], selector: Selector, spaces: set[str] | None) -> Counter[Any]:
    return Counter(
        (row, pod.deleting)
        for row, pod in there.values()
        if (spaces is None or pod.namespace in spaces) and selector.matches(pod.labels)
    )


@settings(max_examples=200, deadline=None)
@given(steps)
def test_cohorts_hold_the_pods_that_a_selector_means(happened: list[tuple[str, Any]]) -> None:
    cohorts = LabelGroupIndex()
    there: dict[int, tuple[int, PodInfo]] = {}
    for number, (kind, what) in enumerate(happened):
        match kind:
            case "come":
                there[number] = (what[0], read(number, what[1]))
                cohorts.update(*there[number], 1)
            case "go" if there:
                cohorts.update(*there.pop(list(there)[what % len(there)]), -1)
            case "ask":
                selector = from_label_selector(what[0])
                found: Counter[Any] = Counter()
                for cohort in cohorts.selected(selector, what[1]):
                    found.update({(row, cohort.deleting): count for row, count in cohort.rows.items()})
                assert found == by_looking(there, selector, what[1])


@settings(max_examples=200, deadline=None)
@given(steps, pods, labels)
def test_a_pod_finds_the_terms_that_mean_it(happened: list[tuple[str, Any]], comer: Any, space: dict[str, str]) -> None:
    carried = ExistingTermIndex()
    there: dict[int, tuple[int, PodInfo]] = {}
    asked = read(1000, comer)
    for number, (kind, what) in enumerate(happened):
        if kind == "come":
            row, pod = there[number] = (what[0], read(number, what[1]))
            carried.update(row, pod.shape, 1)
        elif kind == "go" and there:
            row, pod = there.pop(list(there)[what % len(there)])
            carried.update(row, pod.shape, -1)
        found = carried.matching(asked.namespace, asked.labels, space)
        assert len(found) == len(set(found))
        counted: Counter[Any] = Counter()
        for each in found:
            counted.update({(each.term, row): count for row, count in carried.rows(each).items()})
        assert counted == Counter(
            (term, row)
            for row, pod in there.values()
            for term in pod.shape.anti_affinity.required
            if (asked.namespace in term.namespaces or term.namespace_selector.matches(space))
            and term.selector.matches(asked.labels)
        )
        assert len(carried) == len({term for _, pod in there.values() for term in pod.shape.anti_affinity.required})
    assert set(carried.required_anti_affinity_keys) == ({"zone"} if len(carried) else set())
