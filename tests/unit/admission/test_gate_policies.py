"""GatePolicies at admission, in the embedded API server: which users may add and lift gates, and how many pods wait."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Reply
from headgate.admission.admission_cache import AdmissionCache
from headgate.admission.admission_review import read_review
from headgate.admission.gate_policies import review_pod
from headgate.admission.match_conditions import pod_with_owned_gate, template_with_owned_gate
from headgate.admission.review_scope import ReviewScope
from headgate.admission.settings import AdmissionSettings
from headgate.admission.steps import enabled_steps
from headgate.gate_policies.names import GATE_POLICIES, OWN_GATES
from headgate.kube.feature_gates import FeatureGates
from headgate.runtime.webhooks.configurations import VALIDATING, desired_webhooks
from headgate.runtime.webhooks.target import WebhookTarget
from unit.gate_policies.policies import GATE, OTHER_GATE, a_policy, account, group, user
from unit.gate_policies.policy_world import (
    PODS,
    POLICIES,
    a_server,
    as_user,
    create_pod,
    create_policy,
    gated,
    lift,
)

JOBS = "/apis/batch/v1/namespaces/t/jobs"
ON = AdmissionSettings(schedulers=frozenset({"headgate"}), features=FeatureGates(gate_ownership=True))
OFF = AdmissionSettings(schedulers=frozenset({"headgate"}))


def test_only_the_owner_lifts_and_only_listed_users_add() -> None:
    server = a_server()
    create_policy(server, "p", addedBy=[group("team")], liftedBy=[account("team", "robot")])
    assert create_pod(server, "a", user="alice").status == 403
    assert create_pod(server, "a", user="bob").status == 201
    refused = lift(server, "a", "bob")
    assert refused.status == 403
    assert refused.body["message"] == (
        f'pods "a" is forbidden: spec.schedulingGates: user "bob" may not lift the gate "{GATE}": GatePolicy "p" '
        "allows it for serviceaccount team/robot"
    )
    assert lift(server, "a", "robot").status == 200


def test_a_gate_without_a_policy_and_other_changes_are_free() -> None:
    server = a_server()
    create_policy(server, "p", addedBy=[], liftedBy=[])
    assert create_pod(server, "a", OTHER_GATE, user="alice").status == 201
    assert lift(server, "a", "alice").status == 200
    create_pod(server, "b", OTHER_GATE)
    create_policy(server, "q", OTHER_GATE, liftedBy=[])
    labels = {"metadata": {"labels": {"a": "b"}}}
    merge = "application/merge-patch+json"
    assert as_user(server, "alice", "PATCH", f"{PODS}/b", labels, content_type=merge).status == 200
    assert lift(server, "b", "alice").status == 403
    assert as_user(server, "alice", "DELETE", f"{PODS}/b").status == 200


def test_a_partial_lift_names_the_gate_that_is_refused() -> None:
    server = a_server()
    create_pod(server, "a", GATE, OTHER_GATE)
    create_policy(server, "p", GATE, liftedBy=[user("alice")])
    create_policy(server, "q", OTHER_GATE, liftedBy=[user("bob")])
    assert f'"{OTHER_GATE}"' in lift(server, "a", "alice").body["message"]
    one = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    done = as_user(server, "alice", "PATCH", f"{PODS}/a", one, content_type="application/json-patch+json")
    assert done.status == 200


@pytest.mark.parametrize("gate", sorted(OWN_GATES))
def test_headgate_lifts_its_own_gates_whatever_a_policy_says(gate: str) -> None:
    server = a_server()
    create_policy(server, "p", gate, GATE, liftedBy=[])
    create_pod(server, "a", gate)
    create_pod(server, "b", GATE)
    assert lift(server, "a", "alice").status == 403
    assert lift(server, "a", "headgate").status == 200
    assert lift(server, "b", "headgate").status == 403


def test_headgate_lifts_a_gate_of_others_only_if_its_policy_says_so() -> None:
    server = a_server()
    create_policy(server, "p", liftedBy=[], maxAge="1h", onMaxAge="Lift")
    create_pod(server, "a")
    assert lift(server, "a", "alice").status == 403
    assert lift(server, "a", "headgate").status == 200


# -- pod templates


def a_job(name: str, *gates: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {**gated("x", *gates)["spec"], "restartPolicy": "Never"}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def test_the_user_that_writes_a_template_adds_its_gates_and_the_controller_creates_the_pods() -> None:
    server = a_server()
    create_policy(server, "p", addedBy=[group("team")])
    assert as_user(server, "alice", "POST", JOBS, a_job("j", GATE)).status == 403
    assert as_user(server, "bob", "POST", JOBS, a_job("j", GATE)).status == 201
    assert create_pod(server, "j-1", user="job-controller").status == 201
    suspended = a_job("k", OTHER_GATE, suspend=True)
    assert as_user(server, "alice", "POST", JOBS, suspended).status == 201
    body = {"spec": {"template": {"spec": {"schedulingGates": [{"name": GATE}]}}}}
    merge = "application/merge-patch+json"
    assert as_user(server, "alice", "PATCH", f"{JOBS}/k", body, content_type=merge).status == 403
    assert as_user(server, "bob", "PATCH", f"{JOBS}/k", body, content_type=merge).status == 200


def _workloads(gate: str) -> dict[str, dict[str, Any]]:
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": gated("x", gate)["spec"]}
    job = {"template": {"spec": {**template["spec"], "restartPolicy": "Never"}}}
    with_selector = {"selector": labels, "template": template}
    return {
        "/apis/apps/v1/namespaces/t/deployments": with_selector,
        "/apis/apps/v1/namespaces/t/replicasets": with_selector,
        "/apis/apps/v1/namespaces/t/daemonsets": with_selector,
        "/apis/apps/v1/namespaces/t/statefulsets": {**with_selector, "serviceName": "s"},
        "/api/v1/namespaces/t/replicationcontrollers": {"selector": {"a": "b"}, "template": template},
        "/apis/batch/v1/namespaces/t/cronjobs": {"schedule": "* * * * *", "jobTemplate": {"spec": job}},
        "/apis/batch/v1/namespaces/t/jobs": job,
    }


@pytest.mark.parametrize("path", _workloads(GATE))
def test_every_kind_with_a_pod_template_is_reviewed(path: str) -> None:
    server = a_server()
    create_policy(server, "p", addedBy=[group("team")])
    body = {"metadata": {"name": "w"}, "spec": _workloads(GATE)[path]}
    refused = as_user(server, "alice", "POST", path, body)
    assert refused.status == 403
    template = "spec.jobTemplate.spec.template.spec" if path.endswith("/cronjobs") else "spec.template.spec"
    assert f'forbidden: {template}.schedulingGates: user "alice" may not add the gate' in refused.body["message"]
    assert as_user(server, "bob", "POST", path, body).status == 201
    labels = {"metadata": {"labels": {"a": "b"}}}
    merge = "application/merge-patch+json"
    assert as_user(server, "alice", "PATCH", f"{path}/w", labels, content_type=merge).status == 200
    free = {"metadata": {"name": "v"}, "spec": _workloads(OTHER_GATE)[path]}
    assert as_user(server, "alice", "POST", path, free).status == 201


# -- limits


def test_a_namespace_has_at_most_max_pods_behind_a_gate_also_of_controllers() -> None:
    server = a_server()
    server.post("/api/v1/namespaces", {"metadata": {"name": "u"}})
    create_policy(server, "p", maxPods=2)
    assert [create_pod(server, name, user="alice").status for name in ("a", "b", "c")] == [201, 201, 403]
    refused = create_pod(server, "c", user="job-controller")
    assert refused.status == 403
    assert "2 pods of this namespace wait" in refused.body["message"]
    assert as_user(server, "alice", "POST", "/api/v1/namespaces/u/pods", gated("c")).status == 201
    assert create_pod(server, "d", OTHER_GATE, user="alice").status == 201
    lift(server, "a", "alice")
    assert create_pod(server, "c", user="alice").status == 201
    as_user(server, "alice", "DELETE", f"{PODS}/b", {"gracePeriodSeconds": 0})
    assert create_pod(server, "e", user="alice").status == 201


def test_a_dry_run_is_answered_as_a_creation_and_does_not_count() -> None:
    server = a_server()
    create_policy(server, "p", maxPods=1, addedBy=[user("alice")])

    def dry(name: str, by: str) -> Reply:
        return as_user(server, by, "POST", PODS, gated(name), query={"dryRun": "All"})

    assert [dry("a", "alice").status, dry("a", "alice").status, dry("a", "bob").status] == [201, 201, 403]
    assert create_pod(server, "a", user="alice").status == 201
    assert dry("b", "alice").status == 403


def test_a_pod_that_was_created_and_deleted_meanwhile_does_not_count() -> None:
    server = a_server()
    create_policy(server, "p", maxPods=1)
    assert create_pod(server, "a").status == 201
    as_user(server, "alice", "DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert create_pod(server, "b").status == 201


def test_pods_that_existed_before_the_policy_count() -> None:
    server = a_server()
    for name in ("a", "b", "c"):
        create_pod(server, name)
    create_policy(server, "p", maxPods=3)
    assert create_pod(server, "d").status == 403


def test_failed_creations_of_one_name_do_not_use_up_the_limit() -> None:
    server = a_server()
    create_policy(server, "p", maxPods=3)
    assert create_pod(server, "a").status == 201
    assert [create_pod(server, "a").status for _ in range(5)] == [409] * 5
    assert create_pod(server, "b").status == 201


# -- off and on


def test_the_feature_off_leaves_no_step_and_refuses_nothing() -> None:
    assert not [step for step in enabled_steps(OFF) if step.needs_gate_ownership]
    server = a_server(is_on=False)
    create_policy(server, "p", addedBy=[], liftedBy=[], maxPods=0)
    assert create_pod(server, "a", user="alice").status == 201
    assert lift(server, "a", "alice").status == 200


def test_on_and_off_and_on_again_keeps_every_promise() -> None:
    server = a_server()
    create_policy(server, "p", liftedBy=[user("bob")], maxPods=2)
    create_pod(server, "a", user="alice")
    create_pod(server, "b", user="alice")

    off = a_server(server.api.store, is_on=False)
    assert create_pod(off, "c", user="alice").status == 201
    assert lift(off, "a", "alice").status == 200

    on = a_server(server.api.store)
    assert lift(on, "b", "alice").status == 403
    assert create_pod(on, "d", user="alice").status == 403
    assert lift(on, "b", "bob").status == 200
    assert create_pod(on, "d", user="alice").status == 201


def test_pods_in_exempt_namespaces_are_not_reviewed() -> None:
    server = a_server()
    server.post("/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
    create_policy(server, "p", addedBy=[], liftedBy=[])
    path = "/api/v1/namespaces/kube-system/pods"
    assert as_user(server, "alice", "POST", path, gated("a")).status == 201


def test_a_deleted_policy_frees_its_gates() -> None:
    server = a_server()
    create_policy(server, "p", addedBy=[], liftedBy=[])
    assert create_pod(server, "a").status == 403
    server.delete(f"{POLICIES}/p")
    assert create_pod(server, "a", user="alice").status == 201
    assert lift(server, "a", "alice").status == 200


# -- the review of a webhook


def test_a_review_has_the_groups_of_the_user() -> None:
    body = (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",'
        b'"userInfo":{"username":"alice","groups":["team",5]},"object":{"metadata":{"name":"a","namespace":"t"},'
        b'"spec":{"schedulingGates":[{"name":"example.com/ready"}]}},"namespace":"t"}}'
    )
    request = read_review(body)
    assert not isinstance(request, str)
    assert request.groups == ("team",)
    cache = AdmissionCache()
    cache.applied(GATE_POLICIES, a_policy("p", addedBy=[group("team")]))
    assert not review_pod(request, ON, cache).refusal
    cache.applied(GATE_POLICIES, a_policy("p", addedBy=[group("others")]))
    assert review_pod(request, ON, cache).refusal
    assert not review_pod(request, OFF, cache).refusal


def test_the_scope_has_the_gates_of_all_policies() -> None:
    cache = AdmissionCache()
    assert cache.scope.gates == frozenset()
    cache.applied(GATE_POLICIES, a_policy("p", GATE))
    cache.applied(GATE_POLICIES, a_policy("q", GATE, OTHER_GATE))
    assert cache.scope.gates == {GATE, OTHER_GATE}
    cache.removed(GATE_POLICIES, "", "q")
    assert cache.scope.gates == {GATE}


def test_only_writes_about_a_gate_with_a_policy_are_asked_about() -> None:
    """In `tests/real/test_gate_policies.py` a real API server evaluates the conditions."""
    assert pod_with_owned_gate(ON, ReviewScope()) == "false"
    assert template_with_owned_gate(("spec", "template", "spec"), ON, ReviewScope()) == "false"
    scope = ReviewScope(gates=frozenset({GATE}))
    assert f"g.name in ['{GATE}']" in pod_with_owned_gate(ON, scope)
    many = ReviewScope(gates=frozenset(f"x.io/{number}" for number in range(101)))
    assert ".exists(g, true)" in pod_with_owned_gate(ON, many)


def test_entries_fail_closed_only_if_conditions_select_the_objects() -> None:
    def policies(with_conditions: bool) -> set[tuple[str, bool]]:
        scope = ReviewScope(gates=frozenset({GATE}))
        entries = desired_webhooks(
            VALIDATING, ON, WebhookTarget(url="https://h"), b"", scope, with_conditions=with_conditions
        )
        return {
            (each["failurePolicy"], "matchConditions" in each)
            for each in entries
            if each["name"].startswith("gate-policies.")
        }

    assert policies(True) == {("Fail", True)}
    assert policies(False) == {("Ignore", False)}
