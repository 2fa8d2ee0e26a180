"""Two writes of which one waits for a webhook: a unique value is still allocated to one of them only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from embedded import Embedded, Reply, a_pod
from headgate.apiserver.request.messages import WebhookAnswer, WebhookCall

URL = "https://hook.example/review"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SERVICES = "/api/v1/namespaces/t/services"
PODS = "/api/v1/namespaces/t/pods"


def interrupted(server: Embedded, resource: str, meanwhile: Callable[[], Any]) -> None:
    """Asks a webhook about every new object of ``resource``; the first time, something happens before it answers."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
    hook = {
        "name": "h.example.com",
        "clientConfig": {"url": URL},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "objectSelector": {"matchExpressions": [{"key": "quick", "operator": "DoesNotExist"}]},
    }
    made = server.post(HOOKS, {"metadata": {"name": "h"}, "webhooks": [hook]})
    assert made.status == 201, made.body
    left = [meanwhile]

    def answer(call: WebhookCall) -> WebhookAnswer:
        if left:
            left.pop()()
        asked = msgspec.json.decode(call.body)
        response = {"uid": asked["request"]["uid"], "allowed": True}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return WebhookAnswer(200, msgspec.json.encode(body), "application/json")

    server.webhooks[URL] = answer


def a_service(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"ports": [{"port": 80}], **spec}}


QUICK = {"quick": "yes"}


def test_another_address_is_drawn_if_another_service_got_the_first_one_meanwhile() -> None:
    server = Embedded()
    others: list[Reply] = []
    interrupted(server, "services", lambda: others.append(server.post(SERVICES, a_service("quick", QUICK))))
    slow = server.post(SERVICES, a_service("slow"))
    assert (slow.status, others[0].status) == (201, 201)
    assert slow.body["spec"]["clusterIP"] != others[0].body["spec"]["clusterIP"]


def test_an_address_that_was_asked_for_is_refused_if_another_service_got_it_meanwhile() -> None:
    server = Embedded()
    asked: dict[str, Any] = {"clusterIP": "10.96.9.9"}
    interrupted(server, "services", lambda: server.post(SERVICES, a_service("quick", QUICK, **asked)))
    slow = server.post(SERVICES, a_service("slow", **asked))
    assert slow.status == 422
    assert "provided IP is already allocated" in slow.body["message"]


def test_quota_is_asked_after_the_webhooks() -> None:
    server = Embedded(keeps_quota=True)
    server.post("/api/v1/namespaces/t/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    quick = a_pod("quick")
    quick["metadata"]["labels"] = QUICK
    interrupted(server, "pods", lambda: server.post(PODS, quick))
    slow = server.post(PODS, a_pod("slow"))
    assert slow.status == 403
    assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in slow.body["message"]
