"""Which objects an API server asks about. In `tests/real/test_webhook_scope.py` a real one evaluates the conditions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.admission import match_conditions
from headgate.admission.review_scope import ReviewScope
from headgate.admission.settings import AdmissionSettings
from headgate.capacity.names import LAPSED, LEASE, STAMP
from headgate.jobs.settings import JobSettings

OURS = AdmissionSettings(schedulers=frozenset({"headgate", "volcano"}))
ALL = AdmissionSettings(schedulers=frozenset({"default-scheduler"}))
NO_NODE = "(!has(object.spec.nodeName) || object.spec.nodeName == '')"


def test_pods_of_our_schedulers_are_asked_about_whatever_opts_in() -> None:
    for scope in (ReviewScope(), ReviewScope(frozenset({"a"}), True, frozenset({"b"}))):
        assert match_conditions.new_pod_of_queue_gate(OURS, scope).endswith(f"in ['headgate', 'volcano'] && {NO_NODE})")


def test_pods_of_the_default_scheduler_are_asked_about_only_if_they_can_be_gated() -> None:
    def asks(settings: AdmissionSettings = ALL, **scope: Any) -> str:
        return match_conditions.new_pod_of_queue_gate(settings, ReviewScope(**scope))

    assert "== 'default-scheduler'" not in asks()
    assert asks(opted_in_namespaces=frozenset({"b", "a"})).endswith("&& request.namespace in ['a', 'b'])")
    assert asks(has_opted_in_queue=True).endswith(f"{NO_NODE} && true)")
    assert asks(msgspec.structs.replace(ALL, gates_all_pods=True)).endswith(f"{NO_NODE} && true)")
    many = frozenset(f"namespace-{number}" for number in range(101))
    assert asks(opted_in_namespaces=many).endswith(f"{NO_NODE} && true)")


@pytest.mark.parametrize(
    "condition",
    [
        match_conditions.pod_without_queue,
        match_conditions.job_without_queue,
        match_conditions.pod_owner_without_queue,
    ],
)
def test_all_objects_are_asked_about_if_all_jobs_are_managed(condition: match_conditions.MatchExpression) -> None:
    managing = msgspec.structs.replace(OURS, jobs=JobSettings(manages_all=True))
    assert condition(managing, ReviewScope()) == match_conditions.EVERY
    assert "'team'" in condition(OURS, ReviewScope(default_queue_namespaces=frozenset({"team"})))
    assert "request.namespace" not in condition(OURS, ReviewScope())


def test_a_job_without_a_queue_is_not_asked_about_where_there_is_no_default_queue() -> None:
    assert match_conditions.job_without_queue(OURS, ReviewScope()) == "false"


def test_stamps_that_headgate_writes_are_not_asked_about() -> None:
    settings = msgspec.structs.replace(OURS, trusted_users=frozenset({"headgate", "it's"}))
    asked = match_conditions.changed_stamp(settings, ReviewScope())
    assert asked.startswith("!(request.userInfo.username in ['headgate', 'it\\'s']) && (")
    assert all(f"'{each}' in object.metadata.annotations" in asked for each in (STAMP, LAPSED, LEASE))
