"""The quota tree against the formulas, while queues and cohorts are added, changed, moved, put in cycles, removed."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.quota.api.resource_groups import FlavorQuota
from headgate.quota.cache.quota_tree import QuotaTree
from property.reference_quota import SlowQuota

_FRS = (("spot", "cpu"), ("spot", "memory"), ("fixed", "cpu"))
_QUEUES = ("a", "b", "c", "d")
_COHORTS = ("x", "y", "z", "top")

_limits = st.none() | st.integers(0, 12)
_quotas = st.dictionaries(
    st.sampled_from(_FRS), st.builds(FlavorQuota, st.integers(0, 10), _limits, _limits), max_size=3
)
_usages = st.dictionaries(st.sampled_from(_FRS), st.integers(0, 9), max_size=3)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("queue"), st.sampled_from(_QUEUES), st.sampled_from(("", *_COHORTS)), _quotas),
        st.tuples(st.just("cohort"), st.sampled_from(_COHORTS), st.sampled_from(("", *_COHORTS)), _quotas),
        st.tuples(st.just("no cohort"), st.sampled_from(_COHORTS)),
        st.tuples(st.just("use"), st.sampled_from(_QUEUES), _usages),
        st.tuples(st.just("free"), st.integers(0, 30)),
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(_steps)
def test_the_tree_equals_the_formulas(steps: list[Any]) -> None:
    tree, queues, cohorts, held = QuotaTree(), {}, {}, []
    for step in steps:
        match step:
            case "queue", name, parent, quotas:
                tree.place_queue(name, parent, quotas)
                queues[name] = (parent, quotas)
            case "cohort", name, parent, quotas:
                tree.place_cohort(name, parent, quotas)
                cohorts[name] = (parent, quotas)
            case "no cohort", name:
                tree.remove_cohort(name)
                cohorts.pop(name, None)
            case "use", name, usage:
                if (node := tree.queue(name)) is not None:
                    tree.add(node, usage)
                    held.append((name, usage))
            case "free", number:
                if held:
                    name, usage = held.pop(number % len(held))
                    node = tree.queue(name)
                    assert node is not None
                    tree.add(node, usage, -1)
    slow = SlowQuota(queues, cohorts, held)
    for fr in _FRS:
        for name in queues:
            node, at = tree.queue(name), f"queue/{name}"
            assert node is not None
            assert node.usage.get(fr, 0) == slow.usage(at, fr)
            assert node.subtree.get(fr, 0) == slow.subtree(at, fr)
            assert node.local_quota(fr) == slow.local(at, fr)
            assert node.available(fr) == slow.available(at, fr)
            assert node.potential_available(fr) == slow.potential(at, fr)
        for name in cohorts:
            node, at = tree.cohort(name), f"cohort/{name}"
            assert node is not None
            assert node.usage.get(fr, 0) == slow.usage(at, fr)
            assert node.available(fr) == slow.available(at, fr)
    for name in cohorts:
        assert (name in tree.cycle_of(name)) is (name in slow.circle(name))


@settings(max_examples=150, deadline=None)
@given(_steps, st.sampled_from(_QUEUES), _usages)
def test_what_is_available_can_be_used_and_no_more(steps: list[Any], name: str, usage: dict[Any, int]) -> None:
    tree = QuotaTree()
    for step in steps:
        match step:
            case "queue", queue, parent, quotas:
                tree.place_queue(queue, parent, quotas)
            case "cohort", cohort, parent, quotas:
                tree.place_cohort(cohort, parent, quotas)
    tree.place_queue(name, "top", {fr: FlavorQuota(3) for fr in _FRS})
    node = tree.queue(name)
    assert node is not None
    before = {fr: node.available(fr) for fr in _FRS}
    tree.add(node, usage)
    for fr in _FRS:
        assert node.available(fr) == before[fr] - usage.get(fr, 0)
        assert before[fr] <= node.potential_available(fr)
    tree.add(node, usage, -1)
    assert {fr: node.available(fr) for fr in _FRS} == before
