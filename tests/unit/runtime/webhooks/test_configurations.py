"""The webhook configurations."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from headgate.admission.policy import AdmissionPolicy
from headgate.jobs.settings import JobSettings
from headgate.kube.labels import Selector, parse_selector
from headgate.runtime.webhooks.configurations import (
    MUTATING,
    VALIDATING,
    desired_webhooks,
    is_up_to_date,
    new_configuration,
    repaired_configuration,
)
from headgate.runtime.webhooks.target import WebhookTarget

POLICY = AdmissionPolicy(schedulers=frozenset({"headgate"}), exempt=frozenset({"ours", "kube-system"}))
TARGET = WebhookTarget(url="https://h")


def registered(policy: AdmissionPolicy = POLICY) -> list[dict[str, Any]]:
    return [hook for resource in (MUTATING, VALIDATING) for hook in desired_webhooks(resource, policy, TARGET, b"ca")]


def test_every_webhook_fails_open_soon_and_without_side_effects() -> None:
    for hook in registered():
        assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "None")
        assert hook["timeoutSeconds"] <= 5
        assert hook["admissionReviewVersions"] == ["v1"]
        assert base64.b64decode(hook["clientConfig"]["caBundle"]) == b"ca"
        assert "matchConditions" not in hook


def test_pods_of_exempt_namespaces_are_not_sent_to_us() -> None:
    pods = [hook for hook in registered() if hook["rules"][0]["resources"] == ["pods"]]
    assert len(pods) == 2
    for hook in pods:
        (expression,) = hook["namespaceSelector"]["matchExpressions"]
        assert (expression["operator"], expression["values"]) == ("NotIn", ["kube-system", "ours"])


def test_the_gate_is_asked_about_again_if_others_changed_the_pod() -> None:
    (gate,) = desired_webhooks(MUTATING, POLICY, TARGET, b"")
    assert gate["reinvocationPolicy"] == "IfNeeded"
    assert (gate["clientConfig"]["url"], gate["rules"][0]["operations"]) == ("https://h/pods/mutate", ["CREATE"])
    assert all("reinvocationPolicy" not in hook for hook in desired_webhooks(VALIDATING, POLICY, TARGET, b""))


KEEPING = msgspec.structs.replace(POLICY, suspends_jobs=True)


def about(resource: str, policy: AdmissionPolicy = KEEPING) -> dict[str, dict[str, Any]]:
    found = [hook for hook in registered(policy) if hook["rules"][0]["resources"] == [resource]]
    return {hook["name"]: hook for hook in found}


@pytest.mark.parametrize("resource", ["pods", "deployments", "replicasets", "statefulsets"])
def test_what_names_a_queue_and_could_not_be_held_later_is_not_created_while_nobody_answers(resource: str) -> None:
    group = "" if resource == "pods" else ".apps"
    hooks = about(resource)
    strict, mild = (
        hooks[f"wait.{resource}{group}.jobs.headgate.dev"],
        hooks[f"others.wait.{resource}{group}.jobs.headgate.dev"],
    )
    queue = "kueue.x-k8s.io/queue-name"
    assert strict["failurePolicy"] == "Fail"
    assert strict["objectSelector"] == {"matchExpressions": [{"key": queue, "operator": "Exists"}]}
    assert mild["failurePolicy"] == "Ignore"
    assert mild["objectSelector"] == {"matchExpressions": [{"key": queue, "operator": "DoesNotExist"}]}
    assert hooks[f"{resource}{group}.jobs.headgate.dev"]["failurePolicy"] == "Ignore"


def test_where_all_have_to_wait_nothing_is_created_while_nobody_answers() -> None:
    all_wait = msgspec.structs.replace(KEEPING, jobs=JobSettings(manages_all=True))
    assert about("pods", all_wait)["others.wait.pods.jobs.headgate.dev"]["failurePolicy"] == "Fail"


def test_a_job_that_comes_in_running_is_stopped_later_so_an_outage_keeps_none_out() -> None:
    hooks = about("jobs")
    assert list(hooks) == ["wait.jobs.batch.jobs.headgate.dev", "jobs.batch.jobs.headgate.dev"]
    assert {hook["failurePolicy"] for hook in hooks.values()} == {"Ignore"}


def test_jobs_and_pods_are_asked_about_in_the_namespaces_that_were_chosen() -> None:
    selector = parse_selector("team in (blue,red),quota,!frozen,tier!=free,kubernetes.io/metadata.name!=x")
    assert isinstance(selector, Selector)
    chosen = msgspec.structs.replace(KEEPING, jobs=JobSettings(namespaces=selector))
    expressions = about("jobs", chosen)["jobs.batch.jobs.headgate.dev"]["namespaceSelector"]["matchExpressions"]
    name = "kubernetes.io/metadata.name"
    assert expressions[0] == {"key": name, "operator": "NotIn", "values": ["kube-system", "ours"]}
    assert sorted(expressions[1:], key=lambda each: str(each["key"])) == [
        {"key": "frozen", "operator": "DoesNotExist"},
        {"key": name, "operator": "NotIn", "values": ["x"]},
        {"key": "quota", "operator": "Exists"},
        {"key": "team", "operator": "In", "values": ["blue", "red"]},
        {"key": "tier", "operator": "NotIn", "values": ["free"]},
    ]


def test_who_keeps_no_jobs_asks_about_none() -> None:
    assert about("jobs", POLICY) == about("deployments", POLICY) == {}


def test_names_are_unique_and_what_only_the_embedded_server_asks_is_not_registered() -> None:
    names = [hook["name"] for hook in registered(KEEPING)]
    assert len(set(names)) == len(names)
    below = [hook["rules"][0]["resources"][0] for hook in registered(KEEPING)]
    assert [each for each in below if "/" in each] == ["pods/resize", "workloads/status", "statefulsets/scale"]


def test_with_the_feature_off_nothing_about_pods_is_registered() -> None:
    off = registered(msgspec.structs.replace(POLICY, gates=False))
    assert [hook for hook in off if hook["rules"][0]["resources"] == ["pods"]] == []
    assert desired_webhooks(MUTATING, msgspec.structs.replace(POLICY, gates=False), TARGET, b"") == []


def test_a_configuration_is_right_only_if_it_says_exactly_that() -> None:
    webhooks = desired_webhooks(MUTATING, POLICY, TARGET, b"ca")
    found = {**new_configuration(MUTATING, webhooks), "metadata": {"name": "headgate", "resourceVersion": "7"}}
    assert is_up_to_date(found, webhooks)
    for spoiled in ([], [*webhooks, webhooks[0]], [{**webhooks[0], "failurePolicy": "Fail"}]):
        broken = {**found, "webhooks": spoiled}
        assert not is_up_to_date(broken, webhooks)
        assert repaired_configuration(broken, webhooks) == found
    assert is_up_to_date({"metadata": {}}, [])
