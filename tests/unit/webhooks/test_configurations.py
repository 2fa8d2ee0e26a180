"""What is registered with an API server."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from headgate.admission.policy import Policy
from headgate.control.webhooks.configurations import MUTATING, VALIDATING, desired, is_right, made, repaired
from headgate.control.webhooks.target import Target

POLICY = Policy(schedulers=frozenset({"headgate"}), exempt=frozenset({"ours", "kube-system"}))
TARGET = Target(url="https://h")


def registered(policy: Policy = POLICY) -> list[dict[str, Any]]:
    return [hook for resource in (MUTATING, VALIDATING) for hook in desired(resource, policy, TARGET, b"ca")]


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
    (gate,) = desired(MUTATING, POLICY, TARGET, b"")
    assert gate["reinvocationPolicy"] == "IfNeeded"
    assert (gate["clientConfig"]["url"], gate["rules"][0]["operations"]) == ("https://h/pods/mutate", ["CREATE"])
    assert all("reinvocationPolicy" not in hook for hook in desired(VALIDATING, POLICY, TARGET, b""))


def test_names_are_unique_and_what_only_the_embedded_server_asks_is_not_registered() -> None:
    names = [hook["name"] for hook in registered()]
    assert len(set(names)) == len(names)
    below = [hook["rules"][0]["resources"][0] for hook in registered() if "/" in hook["rules"][0]["resources"][0]]
    assert below == ["workloads/status"]


def test_with_the_feature_off_nothing_about_pods_is_registered() -> None:
    off = registered(msgspec.structs.replace(POLICY, gates=False))
    assert [hook for hook in off if hook["rules"][0]["resources"] == ["pods"]] == []
    assert desired(MUTATING, msgspec.structs.replace(POLICY, gates=False), TARGET, b"") == []


def test_a_configuration_is_right_only_if_it_says_exactly_that() -> None:
    webhooks = desired(MUTATING, POLICY, TARGET, b"ca")
    found = {**made(MUTATING, webhooks), "metadata": {"name": "headgate", "resourceVersion": "7"}}
    assert is_right(found, webhooks)
    for spoiled in ([], [*webhooks, webhooks[0]], [{**webhooks[0], "failurePolicy": "Fail"}]):
        broken = {**found, "webhooks": spoiled}
        assert not is_right(broken, webhooks)
        assert repaired(broken, webhooks) == found
    assert is_right({"metadata": {}}, [])
