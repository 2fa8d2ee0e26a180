"""Incremental counts of disruption budgets, while pods and budgets change, against a full recount."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate.controllers.disruption.budget_pods import BudgetedPod, BudgetPodCounts, BudgetPodIndex, ControllerRef, Key
from headgate.kube.labels import from_label_selector

NAMESPACES: Final = ("a", "b")
LABELS: Final = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(("x", "y")), max_size=2)
SELECTORS: Final = st.one_of(
    st.none(),
    st.just({}),
    st.builds(lambda labels: {"matchLabels": labels}, LABELS),
    st.just({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}),
    st.just({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
    st.just({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}),
)
OWNERS: Final = st.one_of(
    st.none(), st.builds(lambda name: ControllerRef("apps/v1", "ReplicaSet", name, name), st.sampled_from("pq"))
)
KEYS: Final = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(("one", "two", "three")))


class Counting(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tallies = BudgetPodIndex()
        self.pods: dict[str, BudgetedPod] = {}
        self.budgets: dict[Key, Any] = {}

    @rule(number=st.integers(0, 5), labels=LABELS, owner=OWNERS, is_going=st.booleans(), is_ready=st.booleans())
    def apply_a_pod(
        self, number: int, labels: dict[str, str], owner: ControllerRef | None, is_going: bool, is_ready: bool
    ) -> None:
        namespace, uid = NAMESPACES[number % 2], f"uid-{number}"
        pod = BudgetedPod(namespace, f"pod-{number}", uid, labels, owner, is_going, is_ready)
        before = {key for key in self.budgets if uid in self.recount(key).pods}
        changed = self.pods.get(uid) != pod
        self.pods[uid] = pod
        concerned = before | {key for key in self.budgets if uid in self.recount(key).pods}
        assert set(self.tallies.pod_applied(pod)) == (concerned if changed else set())

    @rule(number=st.integers(0, 5))
    def remove_a_pod(self, number: int) -> None:
        uid = f"uid-{number}"
        concerned = {key for key in self.budgets if uid in self.recount(key).pods}
        self.pods.pop(uid, None)
        assert set(self.tallies.pod_removed(uid)) == concerned

    @rule(key=KEYS, selector=SELECTORS)
    def apply_a_budget(self, key: Key, selector: Any) -> None:
        self.budgets[key] = selector
        self.tallies.budget_applied(key, from_label_selector(selector))

    @rule(key=KEYS)
    def remove_a_budget(self, key: Key) -> None:
        self.budgets.pop(key, None)
        self.tallies.budget_removed(key)

    def recount(self, key: Key) -> BudgetPodCounts:
        selector = from_label_selector(self.budgets[key])
        tally = BudgetPodCounts()
        for pod in self.pods.values():
            if pod.namespace == key[0] and selector.matches(pod.labels):
                tally.pods[pod.uid] = pod
                tally.healthy += pod.is_ready and not pod.is_terminating
                tally.unmanaged += pod.owner is None
                if pod.owner is not None:
                    tally.owners[pod.owner] = tally.owners.get(pod.owner, 0) + 1
        return tally

    @invariant()
    def every_count_is_that_of_a_recount(self) -> None:
        for key in self.budgets:
            assert self.tallies.counts(key) == self.recount(key)
        for uid, pod in self.pods.items():
            covering = sorted(key for key in self.budgets if uid in self.recount(key).pods)
            assert list(self.tallies.budgets_of(uid)) == covering
            assert self.tallies.pod_by_name(pod.namespace, pod.name) == pod


Counting.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_counts_follow_changes = Counting.TestCase
