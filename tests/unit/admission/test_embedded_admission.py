"""Headgate's admission in the embedded server: the same responses as the webhook."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from embedded import Embedded, a_pod
from headgate.admission.settings import AdmissionSettings
from headgate.apiserver.authn.user import MASTERS, UserInfo
from headgate.apiserver.request.messages import WebhookAnswer, WebhookCall
from headgate.capacity.names import GATE, OPT_IN, STAMP
from headgate.cli.embedded.admission import own_admission
from headgate.store import Store

PODS = "/api/v1/namespaces/t/pods"
OURS = "Bearer ours"
SETTINGS = AdmissionSettings(schedulers=frozenset({"default-scheduler"}), trusted_users=frozenset({"headgate"}))


def a_server(settings: AdmissionSettings = SETTINGS) -> Embedded:
    store = Store()
    return Embedded(
        store=store, guests=own_admission(settings, store), users={"ours": UserInfo("headgate", (MASTERS,))}
    )


def opting(name: str = "a", value: str = "true", **more: Any) -> dict[str, Any]:
    pod = a_pod(name, **more)
    pod["metadata"]["annotations"] = {OPT_IN: value}
    return pod


def gates(pod: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def test_w1_a_pod_that_opts_in_is_created_with_gate_and_annotation() -> None:
    made = a_server().post(PODS, opting())
    assert made.status == 201
    assert gates(made.body) == [GATE]
    (condition,) = made.body["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")


def test_w2_foreign_gates_come_first() -> None:
    assert gates(a_server().post(PODS, opting(schedulingGates=[{"name": "x.io/y"}])).body) == ["x.io/y", GATE]


def test_w5_a_value_that_is_almost_true_gates_nothing_and_is_warned_about() -> None:
    made = a_server().post(PODS, opting(value="True"))
    assert gates(made.body) == []
    assert len(made.warnings) == 1
    assert OPT_IN in made.warnings[0]


def test_w6_with_the_feature_off_pods_are_unchanged() -> None:
    server = a_server(msgspec.structs.replace(SETTINGS, queue_gate_enabled=False))
    made = server.post(PODS, opting())
    assert gates(made.body) == []
    annotated = server.patch(f"{PODS}/a", {"metadata": {"annotations": {STAMP: "x"}}})
    assert annotated.status == 200


def test_w9_a_pod_that_is_created_on_its_node_is_not_gated() -> None:
    assert gates(a_server().post(PODS, opting(nodeName="n")).body) == []


def test_a_namespace_opts_in_for_its_pods() -> None:
    server = a_server()
    server.patch("/api/v1/namespaces/t", {"metadata": {"annotations": {OPT_IN: "true"}}})
    made = server.post(PODS, a_pod())
    assert gates(made.body) == [GATE]
    assert made.body["metadata"]["annotations"] == {OPT_IN: "true"}
    assert gates(server.post(PODS, opting("b", value="false")).body) == []


def test_a_dry_run_shows_the_gate() -> None:
    assert gates(a_server().post(PODS, opting(), dryRun="All").body) == [GATE]


def test_a_stamp_on_a_new_pod_is_removed() -> None:
    pod = opting()
    pod["metadata"]["annotations"][STAMP] = "forged"
    made = a_server().post(PODS, pod)
    assert made.status == 201
    assert made.body["metadata"]["annotations"] == {OPT_IN: "true"}


@pytest.mark.parametrize("path", [f"{PODS}/a", f"{PODS}/a/status"])
def test_only_headgate_can_write_a_stamp(path: str) -> None:
    server = a_server()
    server.post(PODS, opting())
    stamp = {"metadata": {"annotations": {STAMP: "forged"}}}
    refused = server.patch(path, stamp)
    assert refused.status == 403
    assert refused.body["message"].startswith(f'pods "a" is forbidden: metadata.annotations[{STAMP}]: only Headgate')
    assert STAMP not in server.get(f"{PODS}/a").body["metadata"]["annotations"]
    merge = "application/merge-patch+json"
    assert server.call("PATCH", path, stamp, content_type=merge, authorization=OURS).status == 200
    for value in ("another", None):
        assert server.patch(path, {"metadata": {"annotations": {STAMP: value}}}).status == 403
    assert server.patch(path, {"metadata": {"annotations": {"note": "free"}}}).status == 200


@pytest.mark.parametrize("path", [f"{PODS}/a/binding", "/api/v1/namespaces/t/bindings"])
def test_a_binding_with_a_stamp_is_rejected(path: str) -> None:
    server = a_server()
    server.post(PODS, a_pod())
    binding = {"metadata": {"name": "a", "annotations": {STAMP: "x"}}, "target": {"kind": "Node", "name": "n"}}
    assert server.post(path, binding).status == 403
    assert server.call("POST", path, binding, authorization=OURS).status == 201


def test_a_pod_that_is_created_by_an_apply_is_gated() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", **opting()}
    made = a_server().apply(f"{PODS}/a", pod, "me")
    assert made.status == 201
    assert gates(made.body) == [GATE]


def test_changes_of_a_webhook_are_handled_by_reinvocation() -> None:
    server = a_server()
    server.post("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", HOOK)
    server.webhooks["https://hook.example/"] = _opts_in
    assert gates(server.post(PODS, a_pod()).body) == ["from.webhook", GATE]


HOOK = {
    "metadata": {"name": "h"},
    "webhooks": [
        {
            "name": "h.example.com",
            "clientConfig": {"url": "https://hook.example/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}


def _opts_in(call: WebhookCall) -> WebhookAnswer:
    """A webhook that opts in for all pods and adds another gate."""
    patch = [
        {"op": "add", "path": "/metadata/annotations", "value": {OPT_IN: "true"}},
        {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "from.webhook"}]},
    ]
    response = {
        "uid": msgspec.json.decode(call.body)["request"]["uid"],
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(msgspec.json.encode(patch)).decode(),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return WebhookAnswer(status=200, body=msgspec.json.encode(review), content_type="application/json")
