"""Webhooks without a socket: the test responds for them, and other requests write meanwhile."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from embedded import Embedded, a_pod
from headgate.apiserver.request.messages import WebhookAnswer, WebhookCall
from headgate.kube.feature_gates import FeatureGates

Hook = Callable[[WebhookCall], WebhookAnswer]

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/t/configmaps"
URL = "https://hook/it"


def a_hook(**fields: Any) -> dict[str, Any]:
    resources = ["configmaps", "pods", "pods/*", "services"]
    return {
        "name": "it.hooks.example",
        "clientConfig": {"url": URL},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": resources}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }


def a_map(name: str = "a", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def says(call: WebhookCall, *patch: Any, **response: Any) -> WebhookAnswer:
    review = json.loads(call.body)
    answer = {"uid": review["request"]["uid"], "allowed": True, **response}
    if patch:
        answer |= {"patch": base64.b64encode(json.dumps(patch).encode()).decode(), "patchType": "JSONPatch"}
    body = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": answer}
    return WebhookAnswer(200, json.dumps(body).encode(), "application/json")


class Scripted:
    """Answers the first calls with what a test gave it, all others with a yes; remembers what it was asked."""

    def __init__(self, *script: Hook) -> None:
        self._script = list(script)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, call: WebhookCall) -> WebhookAnswer:
        self.asked.append(json.loads(call.body)["request"])
        return self._script.pop(0)(call) if self._script else says(call)


def a_server(path: str, hook: Hook, **fields: Any) -> Embedded:
    server = Embedded()
    server.webhooks[URL] = hook
    reply = server.post(path, {"metadata": {"name": "c"}, "webhooks": [a_hook(**fields)]})
    assert reply.status == 201, reply.body
    return server


def test_a_patch_is_made_again_from_what_another_wrote_meanwhile() -> None:
    def meanwhile(call: WebhookCall) -> WebhookAnswer:
        server.webhooks[URL] = says
        assert server.patch(f"{MAPS}/a", {"data": {"theirs": "1"}}).status == 200
        server.webhooks[URL] = hook
        return says(call)

    hook = Scripted(says, meanwhile)
    server = a_server(VALIDATING, hook)
    server.post(MAPS, a_map())
    reply = server.patch(f"{MAPS}/a", {"data": {"ours": "2"}})
    assert reply.status == 200
    assert reply.body["data"] == {"theirs": "1", "ours": "2"}
    assert [asked["object"]["data"] for asked in hook.asked[1:]] == [{"ours": "2"}, {"theirs": "1", "ours": "2"}]


def test_an_applied_configuration_is_merged_again() -> None:
    def meanwhile(call: WebhookCall) -> WebhookAnswer:
        server.webhooks[URL] = says
        assert server.apply(f"{MAPS}/a", a_map(theirs="1"), "them").status == 200
        server.webhooks[URL] = hook
        return says(call)

    hook = Scripted(says, meanwhile)
    server = a_server(MUTATING, hook)
    server.post(MAPS, a_map())
    reply = server.apply(f"{MAPS}/a", a_map(ours="2"), "us")
    assert reply.body["data"] == {"theirs": "1", "ours": "2"}
    assert {entry["manager"] for entry in reply.body["metadata"]["managedFields"]} == {"them", "us"}


def test_a_put_that_names_its_revision_conflicts_with_what_another_wrote_meanwhile() -> None:
    def meanwhile(call: WebhookCall) -> WebhookAnswer:
        server.webhooks[URL] = says
        assert server.patch(f"{MAPS}/a", {"data": {"theirs": "1"}}).status == 200
        return says(call)

    server = a_server(VALIDATING, Scripted(says, meanwhile))
    made = server.post(MAPS, a_map()).body
    reply = server.put(f"{MAPS}/a", {**made, "data": {"ours": "2"}})
    assert (reply.status, reply.body["reason"]) == (409, "Conflict")
    assert server.get(f"{MAPS}/a").body["data"] == {"theirs": "1"}


def test_a_put_without_a_revision_wins_over_what_another_wrote_meanwhile() -> None:
    def meanwhile(call: WebhookCall) -> WebhookAnswer:
        server.webhooks[URL] = says
        assert server.patch(f"{MAPS}/a", {"data": {"theirs": "1"}}).status == 200
        return says(call)

    server = a_server(VALIDATING, Scripted(says, meanwhile))
    server.post(MAPS, a_map())
    assert server.put(f"{MAPS}/a", a_map(ours="2")).status == 200
    assert server.get(f"{MAPS}/a").body["data"] == {"ours": "2"}


def test_of_two_that_create_one_comes_first() -> None:
    def meanwhile(call: WebhookCall) -> WebhookAnswer:
        server.webhooks[URL] = says
        assert server.post(MAPS, a_map(theirs="1")).status == 201
        return says(call)

    server = a_server(VALIDATING, Scripted(meanwhile))
    reply = server.post(MAPS, a_map(ours="2"))
    assert (reply.status, reply.body["reason"]) == (409, "AlreadyExists")
    assert server.get(f"{MAPS}/a").body["data"] == {"theirs": "1"}


def test_an_apply_that_would_create_updates_what_another_created_meanwhile() -> None:
    def meanwhile(call: WebhookCall) -> WebhookAnswer:
        server.webhooks[URL] = says
        assert server.apply(f"{MAPS}/a", a_map(theirs="1"), "them").status == 201
        return says(call)

    server = a_server(VALIDATING, Scripted(meanwhile))
    reply = server.apply(f"{MAPS}/a", a_map(ours="2"), "us")
    assert (reply.status, reply.body["data"]) == (200, {"theirs": "1", "ours": "2"})


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_what_was_deleted_meanwhile_is_not_found(method: str) -> None:
    def meanwhile(call: WebhookCall) -> WebhookAnswer:
        server.webhooks[URL] = says
        assert server.delete(f"{MAPS}/a").status == 200
        return says(call)

    server = a_server(VALIDATING, Scripted(says, meanwhile))
    server.post(MAPS, a_map())
    reply = server.patch(f"{MAPS}/a", {"data": {"x": "y"}}) if method == "PATCH" else server.delete(f"{MAPS}/a")
    assert reply.status == 404
    assert server.get(f"{MAPS}/a").status == 404


def test_a_delete_checks_its_preconditions_against_what_another_wrote_meanwhile() -> None:
    def meanwhile(call: WebhookCall) -> WebhookAnswer:
        server.webhooks[URL] = says
        assert server.patch(f"{MAPS}/a", {"data": {"theirs": "1"}}).status == 200
        return says(call)

    server = a_server(VALIDATING, Scripted(says, meanwhile))
    made = server.post(MAPS, a_map()).body
    version = made["metadata"]["resourceVersion"]
    reply = server.delete(f"{MAPS}/a", {"preconditions": {"resourceVersion": version}})
    assert (reply.status, reply.body["reason"]) == (409, "Conflict")
    assert server.get(f"{MAPS}/a").status == 200


def test_two_services_that_wait_for_a_webhook_do_not_get_one_address() -> None:
    def meanwhile(call: WebhookCall) -> WebhookAnswer:
        server.webhooks[URL] = says
        reply = server.post("/api/v1/namespaces/t/services", a_service("theirs"))
        assert reply.status == 201, reply.body
        return says(call)

    def a_service(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}

    server = a_server(VALIDATING, Scripted(meanwhile))
    ours = server.post("/api/v1/namespaces/t/services", a_service("ours")).body
    theirs = server.get("/api/v1/namespaces/t/services/theirs").body
    assert ours["spec"]["clusterIP"] != theirs["spec"]["clusterIP"]


def test_a_pod_that_may_be_marked_but_not_removed_stays_marked() -> None:
    def refuse(call: WebhookCall) -> WebhookAnswer:
        return says(call, allowed=False, status={"message": "not yet"})

    server = a_server(VALIDATING, Scripted(says, says, refuse))
    server.post("/api/v1/namespaces/t/pods", a_pod())
    reply = server.delete("/api/v1/namespaces/t/pods/a")
    assert reply.body["message"].endswith("not yet")
    assert "deletionTimestamp" in server.get("/api/v1/namespaces/t/pods/a").body["metadata"]
    assert server.delete("/api/v1/namespaces/t/pods/a").status == 200


def test_a_webhook_that_takes_all_the_time_ends_the_request() -> None:
    def slowly(call: WebhookCall) -> WebhookAnswer:
        limits.append(call.timeout_s)
        return WebhookAnswer(problem="context deadline exceeded", took_s=call.timeout_s)

    limits: list[float] = []
    server = a_server(MUTATING, slowly, failurePolicy="Ignore", timeoutSeconds=30)
    server.webhooks["https://hook/second"] = slowly
    second = a_hook(clientConfig={"url": "https://hook/second"}, failurePolicy="Ignore", timeoutSeconds=20)
    server.post(MUTATING, {"metadata": {"name": "d"}, "webhooks": [second]})
    reply = server.post(MAPS, a_map())
    assert (reply.status, reply.body["reason"]) == (504, "Timeout")
    assert limits == [30.0, 4.0]
    limits.clear()
    assert server.call("POST", MAPS, a_map(), query={"timeout": "2s"}).status == 504
    assert limits == [2.0]


def test_the_remaining_time_is_sent_in_whole_seconds() -> None:
    def quick(call: WebhookCall) -> WebhookAnswer:
        urls.append(call.url)
        return WebhookAnswer(problem="no", took_s=0.5)

    urls: list[str] = []
    server = a_server(VALIDATING, quick, failurePolicy="Ignore", timeoutSeconds=7)
    assert server.call("POST", MAPS, a_map(), query={"timeout": "1500ms"}).status == 201
    assert server.post(MAPS, a_map("b")).status == 201
    assert urls == [f"{URL}?timeout=2s", f"{URL}?timeout=7s"]


def test_a_side_effect_forbids_dry_runs() -> None:
    server = a_server(VALIDATING, says)
    stored = server.api.store.read_applied("validatingwebhookconfigurations.admissionregistration.k8s.io", "", "c")
    assert stored is not None
    some = stored.data.replace(b'"sideEffects":"None"', b'"sideEffects":"Some"')
    assert some != stored.data
    revision = server.api.store.next_revision()
    server.api.store.stage(type(stored)(**{**_fields(stored), "data": some, "revision": revision}))
    server.api.store.commit(revision)
    reply = server.call("POST", MAPS, a_map(), query={"dryRun": "All"})
    assert reply.body["message"] == 'admission webhook "it.hooks.example" does not support dry run'
    assert server.post(MAPS, a_map()).status == 201


def _fields(item: Any) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__struct_fields__}


def test_match_conditions_are_refused_with_words() -> None:
    server = Embedded()
    hook = a_hook(matchConditions=[{"name": "always", "expression": "true"}])
    for path in (MUTATING, VALIDATING):
        reply = server.post(
            path, {"metadata": {"name": "c"}, "webhooks": [a_hook(), hook | {"name": "b.hooks.example"}]}
        )
        assert reply.status == 403
        assert "webhooks[1].matchConditions: the embedded API server evaluates no CEL" in reply.body["message"]
        assert server.post(path, {"metadata": {"name": "c"}, "webhooks": [a_hook()]}).status == 201
        assert server.patch(f"{path}/c", {"webhooks": [hook]}).status == 403


def test_a_service_cannot_be_reached() -> None:
    client = {"service": {"namespace": "t", "name": "s", "path": "/check"}}
    server = a_server(VALIDATING, says, clientConfig=client)
    reply = server.post(MAPS, a_map())
    prefix = 'failed calling webhook "it.hooks.example": failed to call webhook: Post'
    url = "https://s.t.svc:443/check?timeout=10s"
    assert reply.body["message"] == f'Internal error occurred: {prefix} "{url}": service "s" not found'
    server.delete(f"{VALIDATING}/c")
    assert server.post("/api/v1/namespaces/t/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}})
    server.post(VALIDATING, {"metadata": {"name": "c"}, "webhooks": [a_hook(clientConfig=client)]})
    assert "services have no network here" in server.post(MAPS, a_map()).body["message"]
    ignoring = a_hook(clientConfig=client, failurePolicy="Ignore")
    assert server.patch(f"{VALIDATING}/c", {"webhooks": [ignoring]}).status == 200
    assert server.post(MAPS, a_map()).status == 201


def test_a_redirect_is_a_failure_that_says_so() -> None:
    server = a_server(VALIDATING, lambda call: WebhookAnswer(307, b"", "text/plain"))
    message = server.post(MAPS, a_map()).body["message"]
    assert message.endswith("the server responded with the status code 307, a redirect, which is not followed")


def test_configurations_of_an_earlier_process_count() -> None:
    first = a_server(VALIDATING, says)
    second = Embedded(store=first.api.store, features=FeatureGates(), namespace="")
    hook = Scripted()
    second.webhooks[URL] = hook
    assert second.post(MAPS, a_map()).status == 201
    assert len(hook.asked) == 1


def test_a_configuration_that_is_deleted_is_forgotten() -> None:
    hook = Scripted()
    server = a_server(VALIDATING, hook)
    server.delete(f"{VALIDATING}/c")
    server.post(MAPS, a_map())
    assert hook.asked == []


def test_a_configuration_that_never_reached_the_disk_does_not_count() -> None:
    server = Embedded()
    server.webhooks[URL] = hook = Scripted()
    server.disk_error = "full"
    assert server.post(VALIDATING, {"metadata": {"name": "c"}, "webhooks": [a_hook()]}).status == 500
    server.disk_error = None
    assert server.post(MAPS, a_map()).status == 201
    assert hook.asked == []


def test_the_history_may_be_compacted_under_the_index() -> None:
    hook = Scripted()
    server = a_server(VALIDATING, hook)
    server.post(MAPS, a_map())
    server.delete(f"{VALIDATING}/c")
    server.api.store.compact(server.api.store.committed)
    server.post(MAPS, a_map("b"))
    assert [asked["name"] for asked in hook.asked] == ["a"]
