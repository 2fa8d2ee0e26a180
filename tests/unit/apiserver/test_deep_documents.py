"""Documents that nest without end, wherever the server reads a text that others wrote: none is an error of ours.

``Embedded`` lets every exception through, so a ``RecursionError`` anywhere fails the test.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from embedded import Embedded, a_pod
from headgate.apiserver.request.messages import WebhookAnswer, WebhookCall
from unit.apiserver.custom.definitions import DEFINITIONS, WIDGETS, a_definition, a_version, a_widget

DEPTHS = (260, 400, 900, 5_000, 200_000)
HOOK = "https://hook.example/"
MAPS = "/api/v1/namespaces/t/configmaps"
SCALERS = "/apis/autoscaling/{}/namespaces/t/horizontalpodautoscalers"


def lists(depth: int) -> str:
    return "[" * depth + "]" * depth


def objects(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.fixture(
    params=[shape(depth) for depth in DEPTHS for shape in (lists, objects)], ids=lambda text: str(len(text))
)
def deep(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> Embedded:
    return Embedded()


def a_scaler(version: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "annotations": annotations},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
    }


@pytest.mark.parametrize("how", ["json", "merge", "strategic", "apply-patch+yaml"])
def test_a_deep_patch_is_refused(server: Embedded, deep: str, how: str) -> None:
    server.post(MAPS, {"metadata": {"name": "a"}})
    assert server.patch(f"{MAPS}/a", deep.encode(), how, fieldManager="m").status in (400, 415, 422)


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_a_deep_body_is_refused(server: Embedded, deep: str, kind: str) -> None:
    body = f'{{"metadata":{{"name":"a"}},"x":{deep}}}'.encode()
    assert server.call("POST", MAPS, body, content_type=f"application/{kind}").status == 400


def test_a_deep_annotation_of_an_autoscaler_is_passed_over(server: Embedded, deep: str) -> None:
    names = ("metrics", "behavior", "current-metrics", "conditions")
    annotations = {f"autoscaling.alpha.kubernetes.io/{name}": deep for name in names}
    for version in ("v1", "v2"):
        server.post(SCALERS.format(version), a_scaler(version, **annotations))
        assert server.get(SCALERS.format("v1")).status == 200
        assert server.get(SCALERS.format("v2")).status == 200


def test_a_deep_last_applied_configuration_is_passed_over(server: Embedded, deep: str) -> None:
    said = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{deep}}}'
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": said[:200_000]}
    server.post(MAPS, {"metadata": {"name": "a", "annotations": annotations}})
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    assert server.apply(f"{MAPS}/a", applied, "kubectl", force=True).status == 200


def test_deep_elements_of_field_sets_are_no_error_of_the_server(server: Embedded, deep: str) -> None:
    for element in (f"k:{deep}", f"v:{deep}", f'k:{{"name":{deep}}}'):
        entry = {
            "manager": "m",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {element: {}}},
        }
        response = server.post(MAPS, {"metadata": {"generateName": "a", "managedFields": [entry]}})
        assert response.status in (201, 400), response.body
        if response.status == 201:
            name = response.body["metadata"]["name"]
            assert server.patch(f"{MAPS}/{name}", {"data": {"a": "b"}}).status == 200


def test_a_deep_docker_configuration_and_a_deep_toleration_are_refused_or_kept(server: Embedded, deep: str) -> None:
    secret = {
        "metadata": {"name": "a"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(deep.encode()).decode()},
    }
    assert server.post("/api/v1/namespaces/t/secrets", secret).status in (201, 422)
    pod = a_pod()
    pod["metadata"]["annotations"] = {"scheduler.alpha.kubernetes.io/tolerations": deep[:200_000]}
    assert server.post("/api/v1/namespaces/t/pods", pod).status in (201, 422)
    assert server.patch("/api/v1/namespaces/t", {"metadata": pod["metadata"]}).status in (200, 400, 422)


def test_deep_tokens_are_refused(server: Embedded, deep: str) -> None:
    token = base64.urlsafe_b64encode(deep.encode()).rstrip(b"=").decode()
    assert server.get(MAPS, limit="1", **{"continue": token}).status == 400
    inside = base64.urlsafe_b64encode(f'{{"v":"meta.k8s.io/v1","x":{deep}}}'.encode()).rstrip(b"=").decode()
    assert server.get(MAPS, limit="1", **{"continue": inside}).status == 400
    assert server.call("GET", MAPS, authorization=f"Bearer {token}.{token}.{token}").status == 401


@pytest.mark.parametrize("phase", ["Mutating", "Validating"])
def test_a_deep_answer_of_an_admission_webhook_is_the_webhooks_failure(server: Embedded, deep: str, phase: str) -> None:
    configuration = {
        "metadata": {"name": "c"},
        "webhooks": [
            {
                "name": "hook.example.com",
                "clientConfig": {"url": HOOK},
                "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
    place = f"/apis/admissionregistration.k8s.io/v1/{phase.lower()}webhookconfigurations"
    assert server.post(place, configuration).status == 201
    patch = base64.b64encode(f'[{{"op":"add","path":"/data","value":{deep}}}]'.encode()).decode()
    uid = '"uid":"' + "U" + '"'
    bodies = [
        deep,
        f'{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{{{uid},"allowed":true,"x":{deep}}}}}',
        f'{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":'
        f'{{{uid},"allowed":true,"patchType":"JSONPatch","patch":"{patch}"}}}}',
    ]
    for status in (200, 500):
        for body in bodies:

            def answer(call: WebhookCall, body: str = body, status: int = status) -> WebhookAnswer:
                asked = call.body.partition(b'"uid":"')[2].partition(b'"')[0].decode()
                return WebhookAnswer(status, body.replace('"U"', f'"{asked}"').encode(), "application/json")

            server.webhooks[HOOK] = answer
            refused = server.post(MAPS, {"metadata": {"name": "a"}})
            assert refused.status == 500
            assert 'failed calling webhook "hook.example.com"' in refused.body["message"] or phase == "Mutating"


RESPONSE = '{{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","response":{{"uid":"U",{}}}}}'
SUCCESS = '"result":{"status":"Success"}'


@pytest.mark.parametrize(
    "body",
    [
        "DEEP",
        RESPONSE.format(f'{SUCCESS},"convertedObjects":DEEP'),
        RESPONSE.format(f'{SUCCESS},"convertedObjects":[DEEP]'),
        RESPONSE.format('"result":DEEP'),
        RESPONSE.format(
            f'{SUCCESS},"convertedObjects":[{{"kind":"Widget","apiVersion":"example.com/v2","metadata":'
            '{"name":"a","namespace":"t","uid":"I"},"spec":DEEP}]'
        ),
    ],
)
def test_a_deep_answer_of_a_conversion_webhook_is_the_webhooks_failure(deep: str, body: str) -> None:
    server = Embedded()
    hook = {"clientConfig": {"url": HOOK}, "conversionReviewVersions": ["v1"]}
    anything = {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = a_version("v1", anything), a_version("v2", anything, storage=False)
    made = server.post(DEFINITIONS, a_definition(*versions, conversion={"strategy": "Webhook", "webhook": hook}))
    assert made.status == 201
    uid = server.post(WIDGETS, a_widget(spec={})).body["metadata"]["uid"]

    def answer(call: WebhookCall) -> WebhookAnswer:
        asked = call.body.partition(b'"uid":"')[2].partition(b'"')[0].decode()
        asked = call.body.rpartition(b'"uid":"')[2].partition(b'"')[0].decode() if asked == uid else asked
        said = body.replace("DEEP", deep).replace('"I"', f'"{uid}"').replace('"U"', f'"{asked}"')
        return WebhookAnswer(200, said.encode(), "application/json")

    server.webhooks[HOOK] = answer
    place = WIDGETS.replace("/v1/", "/v2/")
    for reply in (server.get(f"{place}/a"), server.get(place), server.post(place, a_widget("b", "v2", spec={}))):
        assert reply.status == 500
        assert reply.body["message"].startswith("conversion webhook for example.com/v"), reply.body
    assert server.get(f"{WIDGETS}/a").status == 200


@pytest.mark.parametrize(
    "said",
    [
        '"result":[]',
        '"result":"Success"',
        '"result":{"status":"Failure","message":["a"]}',
        '"result":{"status":["Success"]}',
        f'{SUCCESS},"convertedObjects":1',
        f'{SUCCESS},"convertedObjects":"ab"',
        f'{SUCCESS},"convertedObjects":{{"a":{{}}}}',
        f'{SUCCESS},"convertedObjects":[1]',
        f'{SUCCESS},"convertedObjects":[{{"kind":[],"apiVersion":{{}},"metadata":1}}]',
    ],
)
def test_a_misshapen_answer_of_a_conversion_webhook_is_the_webhooks_failure(said: str) -> None:
    test_a_deep_answer_of_a_conversion_webhook_is_the_webhooks_failure("", RESPONSE.format(said))
