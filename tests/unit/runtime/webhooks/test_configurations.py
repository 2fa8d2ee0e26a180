"""The webhook configurations."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from headgate.admission.review_scope import ReviewScope
from headgate.admission.settings import AdmissionSettings
from headgate.jobs.settings import JobSettings
from headgate.kube.labels import Selector, parse_selector
from headgate.runtime.webhooks.configurations import (
    MUTATING,
    VALIDATING,
    Component,
    component_of,
    desired_webhooks,
    merge_configuration,
    own_entries,
    settings_annotation,
)
from headgate.runtime.webhooks.target import WebhookTarget
from unit.jobs import training

SETTINGS = AdmissionSettings(schedulers=frozenset({"headgate"}), exempt_namespaces=frozenset({"ours", "kube-system"}))
TARGET = WebhookTarget(url="https://h")


def registered(settings: AdmissionSettings = SETTINGS) -> list[dict[str, Any]]:
    return [hook for resource in (MUTATING, VALIDATING) for hook in desired_webhooks(resource, settings, TARGET, b"ca")]


def test_every_webhook_fails_open_soon_and_without_side_effects() -> None:
    for hook in registered():
        assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "None")
        assert hook["timeoutSeconds"] <= 5
        assert hook["admissionReviewVersions"] == ["v1"]
        assert base64.b64decode(hook["clientConfig"]["caBundle"]) == b"ca"


def test_pods_of_exempt_namespaces_are_not_sent_to_us() -> None:
    pods = [hook for hook in registered() if hook["rules"][0]["resources"] == ["pods"]]
    assert len(pods) == 2
    for hook in pods:
        (expression,) = hook["namespaceSelector"]["matchExpressions"]
        assert (expression["operator"], expression["values"]) == ("NotIn", ["kube-system", "ours"])


def test_the_gate_is_asked_about_again_if_others_changed_the_pod() -> None:
    (gate,) = desired_webhooks(MUTATING, SETTINGS, TARGET, b"")
    assert gate["reinvocationPolicy"] == "IfNeeded"
    assert (gate["clientConfig"]["url"], gate["rules"][0]["operations"]) == ("https://h/pods/mutate", ["CREATE"])
    assert all("reinvocationPolicy" not in hook for hook in desired_webhooks(VALIDATING, SETTINGS, TARGET, b""))


KEEPING = msgspec.structs.replace(SETTINGS, suspends_jobs=True)


def about(resource: str, settings: AdmissionSettings = KEEPING) -> dict[str, dict[str, Any]]:
    found = [hook for hook in registered(settings) if hook["rules"][0]["resources"] == [resource]]
    return {hook["name"]: hook for hook in found}


@pytest.mark.parametrize("resource", ["pods", "jobs", "deployments", "replicasets", "statefulsets"])
def test_an_object_that_names_a_queue_is_not_created_while_the_webhooks_are_down(resource: str) -> None:
    group = {"pods": "", "jobs": ".batch"}.get(resource, ".apps")
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


def test_if_all_jobs_are_managed_no_job_is_created_while_the_webhooks_are_down() -> None:
    all_wait = msgspec.structs.replace(KEEPING, jobs=JobSettings(manages_all=True))
    for resource, name in (("pods", "pods"), ("jobs", "jobs.batch")):
        other = about(resource, all_wait)[f"others.wait.{name}.jobs.headgate.dev"]
        assert (other["failurePolicy"], "matchConditions" in other) == ("Fail", False)


def test_a_job_kind_from_a_file_fails_closed_like_a_job() -> None:
    with_runs = msgspec.structs.replace(KEEPING, jobs=training.settings())
    policies = {name: hook["failurePolicy"] for name, hook in about(training.RUNS.plural, with_runs).items()}
    suffix = f"{training.RUNS.plural}.{training.RUNS.group}.jobs.headgate.dev"
    assert policies == {f"wait.{suffix}": "Fail", f"others.wait.{suffix}": "Ignore", suffix: "Ignore"}


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


def test_without_the_component_jobs_no_webhook_selects_jobs_or_deployments() -> None:
    assert about("jobs", SETTINGS) == about("deployments", SETTINGS) == {}


def test_names_are_unique_and_what_only_the_embedded_server_asks_is_not_registered() -> None:
    names = [hook["name"] for hook in registered(KEEPING)]
    assert len(set(names)) == len(names)
    below = [hook["rules"][0]["resources"][0] for hook in registered(KEEPING)]
    assert [each for each in below if "/" in each] == ["pods/resize", "workloads/status", "statefulsets/scale"]


def test_with_the_feature_off_nothing_about_pods_is_registered() -> None:
    off = registered(msgspec.structs.replace(SETTINGS, queue_gate_enabled=False))
    assert [hook for hook in off if hook["rules"][0]["resources"] == ["pods"]] == []
    assert desired_webhooks(MUTATING, msgspec.structs.replace(SETTINGS, queue_gate_enabled=False), TARGET, b"") == []


def conditions(settings: AdmissionSettings, scope: ReviewScope) -> dict[str, str]:
    hooks = desired_webhooks(MUTATING, settings, TARGET, b"", scope) + desired_webhooks(
        VALIDATING, settings, TARGET, b"", scope
    )
    return {hook["name"]: hook["matchConditions"][0]["expression"] for hook in hooks if "matchConditions" in hook}


def test_every_entry_about_pods_has_a_condition_except_for_pods_that_name_a_queue() -> None:
    names = {hook["name"] for hook in registered(KEEPING) if hook["rules"][0]["resources"][0].startswith("pods")}
    assert names - conditions(KEEPING, ReviewScope()).keys() == {"wait.pods.jobs.headgate.dev"}


def test_a_default_queue_changes_only_the_entries_for_objects_without_a_queue() -> None:
    before, after = (
        conditions(KEEPING, ReviewScope(default_queue_namespaces=frozenset(each))) for each in ((), ("a", "b"))
    )
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {name for name in before if name.startswith("others.")}
    assert all("request.namespace in ['a', 'b']" in after[name] for name in changed)


def test_an_api_server_that_does_not_know_conditions_gets_none() -> None:
    for resource in (MUTATING, VALIDATING):
        for hook in desired_webhooks(resource, KEEPING, TARGET, b"", with_conditions=False):
            assert "matchConditions" not in hook


# -- entries of several replicas

STRANGE = {"name": "strange.example.com"}


def entries(settings: AdmissionSettings, target: WebhookTarget = TARGET) -> list[Any]:
    return own_entries(MUTATING, settings, target, b"ca", ReviewScope(), with_conditions=True)


def merged(found: Any, settings: AdmissionSettings, *, starts: bool = False, target: WebhookTarget = TARGET) -> Any:
    starting: tuple[Component, ...] = ("webhooks", "jobs") if starts else ()
    return merge_configuration(MUTATING, found, entries(settings, target), starting)


def names_in(configuration: Any) -> list[str]:
    return [each["name"] for each in configuration["webhooks"]]


def test_each_entry_belongs_to_a_component_by_its_name() -> None:
    components = {component_of(hook["name"]) for hook in registered(KEEPING)}
    assert components == {"webhooks", "jobs"}
    assert {component_of(hook["name"]) for hook in registered(SETTINGS)} == {"webhooks"}
    assert component_of("strange.example.com") is None


def test_own_entries_that_differ_are_restored_and_right_ones_are_not_written() -> None:
    right = merged(None, SETTINGS).wanted
    assert merged(right, SETTINGS).wanted is None
    hook = right["webhooks"][0]
    for spoiled in ([], [hook, hook], [{**hook, "failurePolicy": "Fail"}]):
        assert merged({**right, "webhooks": spoiled}, SETTINGS).wanted == right
    assert merged({**right, "metadata": {"name": "headgate"}}, SETTINGS).wanted["webhooks"] == right["webhooks"]


def test_a_replica_leaves_entries_of_components_that_it_does_not_run_and_foreign_entries() -> None:
    both = merged(merged(None, SETTINGS).wanted, KEEPING, starts=True).wanted
    assert {component_of(name) for name in names_in(both)} == {"webhooks", "jobs"}
    both = {**both, "webhooks": [*both["webhooks"], STRANGE]}
    for settings in (SETTINGS, KEEPING):
        for starts in (True, False):
            assert merged(both, settings, starts=starts).wanted is None


def test_a_replica_removes_its_own_entries_when_their_feature_is_off() -> None:
    both = merged(None, KEEPING).wanted
    off = msgspec.structs.replace(SETTINGS, queue_gate_enabled=False)
    after = merged(both, off, starts=True).wanted
    assert names_in(after) == [name for name in names_in(both) if component_of(name) == "jobs"]


def test_of_two_replicas_with_other_settings_the_one_that_started_last_keeps_its_entries() -> None:
    elsewhere = WebhookTarget(url="https://elsewhere")
    first = merged(None, SETTINGS, starts=True).wanted
    second = merged(first, SETTINGS, starts=True, target=elsewhere).wanted
    assert second["webhooks"][0]["clientConfig"]["url"].startswith("https://elsewhere")
    left = merged(second, SETTINGS)
    assert (left.wanted, left.left_alone) == (None, ("webhooks",))
    assert merged(second, SETTINGS, target=elsewhere).wanted is None
    assert merged(second, SETTINGS, starts=True).wanted["webhooks"] == first["webhooks"]


def test_a_new_certificate_authority_and_a_default_queue_are_no_other_settings() -> None:
    scope = ReviewScope(frozenset({"a"}), True, frozenset({"b"}))
    for resource in (MUTATING, VALIDATING):
        one = own_entries(resource, KEEPING, TARGET, b"ca", ReviewScope(), with_conditions=True)
        other = own_entries(resource, KEEPING, TARGET, b"other", scope, with_conditions=False)
        assert [each.settings for each in one] == [each.settings for each in other]


def test_the_annotation_names_the_component() -> None:
    annotations = merged(None, KEEPING).wanted["metadata"]["annotations"]
    assert list(annotations) == [settings_annotation("webhooks"), settings_annotation("jobs")]
