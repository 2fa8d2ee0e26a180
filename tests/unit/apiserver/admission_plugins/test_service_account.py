"""ServiceAccount: which account a new pod runs under, and what it may refer to."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded, a_pod
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister
from headgate.apiserver.admission_plugins.plugin_table import AdmissionPlugins, PluginRegistration
from headgate.apiserver.handler import handle
from headgate.apiserver.request.messages import Commit, ServerRequest, ServerResponse, WaitRevision

ACCOUNTS = "/api/v1/namespaces/t/serviceaccounts"
PODS = "/api/v1/namespaces/t/pods"
ENFORCED = {"kubernetes.io/enforce-mountable-secrets": "true"}


def a_server(*accounts: dict[str, Any], guests: AdmissionPlugins | None = None) -> Embedded:
    server = Embedded(disabled_plugins=(), guests=guests)
    for each in accounts:
        assert server.post(ACCOUNTS, each).status == 201
    return server


def an_account(name: str = "default", annotations: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": annotations or {}}, **fields}


def test_a_pod_without_an_account_runs_under_the_default_one() -> None:
    made = a_server(an_account()).post(PODS, a_pod())
    assert made.status == 201
    assert (made.body["spec"]["serviceAccountName"], made.body["spec"]["serviceAccount"]) == ("default", "default")


def test_a_pod_keeps_the_account_that_it_names_and_takes_its_pull_secrets() -> None:
    server = a_server(an_account("robot", imagePullSecrets=[{"name": "registry"}]))
    made = server.post(PODS, a_pod(serviceAccountName="robot"))
    assert made.body["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    own = server.post(PODS, a_pod("b", serviceAccountName="robot", imagePullSecrets=[{"name": "mine"}]))
    assert own.body["spec"]["imagePullSecrets"] == [{"name": "mine"}]


@pytest.mark.parametrize("name", ["default", "robot"])
def test_a_pod_whose_account_does_not_exist_is_refused(name: str) -> None:
    response = a_server().post(PODS, a_pod(serviceAccountName=name))
    assert response.status == 403
    assert response.body["message"] == (
        f'pods "a" is forbidden: error looking up service account t/{name}: serviceaccount "{name}" not found'
    )


def test_the_account_that_a_later_admission_step_names_must_exist_too() -> None:
    def rename(attributes: AdmissionAttributes, new: Object, old: Object | None, view: ObjectLister) -> None:
        new["spec"] = {**new["spec"], "serviceAccountName": "robot", "serviceAccount": "robot"}

    guests = AdmissionPlugins(mutating=(PluginRegistration("Rename", ("CREATE",), "pods", rename),))
    response = a_server(an_account(), guests=guests).post(PODS, a_pod())
    assert response.status == 403
    assert response.body["message"].endswith(
        'error looking up service account t/robot: serviceaccount "robot" not found'
    )


def test_a_disabled_plugin_leaves_pods_as_they_are() -> None:
    made = Embedded(disabled_plugins=("ServiceAccount",)).post(PODS, a_pod())
    assert made.status == 201
    assert "serviceAccountName" not in made.body["spec"]


def test_a_pod_that_comes_before_the_account_of_its_namespace_waits_for_it() -> None:
    server = a_server()
    sent = {"authorization": "Bearer token", "content-type": "application/json"}
    body = b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}'
    steps = handle(server.api, ServerRequest("POST", PODS, "", sent, body), server.moment())
    waits = [next(steps)]
    waits.append(steps.send(True))  # woken by a write of something else
    assert all(isinstance(each, WaitRevision) for each in waits)
    server.post(ACCOUNTS, an_account())
    assert isinstance(steps.send(True), Commit)
    server.api.store.commit(server.api.store.applied)
    with pytest.raises(StopIteration) as done:
        steps.send(None)
    response = done.value.value
    assert isinstance(response, ServerResponse)
    assert response.status == 201


@pytest.mark.parametrize(
    ("spec", "namespace"),
    [({"serviceAccountName": "robot"}, "t"), ({}, "absent")],
)
def test_nothing_else_is_waited_for(spec: dict[str, Any], namespace: str) -> None:
    server = a_server()
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    waited: list[object] = []
    perform = server._perform

    def watched(effect: object) -> object:
        waited.append(effect)
        return perform(effect)

    server._perform = watched  # type: ignore[method-assign]  # the test looks at the effects on their way
    response = server.call("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    assert response.status in (403, 404)
    assert not [each for each in waited if isinstance(each, WaitRevision)]


def env(secret: str) -> dict[str, Any]:
    variable = {"name": "V", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}
    return {"containers": [{"name": "c", "image": "i", "env": [variable]}]}


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"volumes": [{"name": "v", "secret": {"secretName": "own"}}]}, True),
        ({"volumes": [{"name": "v", "secret": {"secretName": "other"}}]}, False),
        (env("own"), True),
        (env("other"), False),
        ({"imagePullSecrets": [{"name": "other"}]}, False),
    ],
)
def test_an_account_may_keep_its_pods_from_secrets_that_are_not_its_own(spec: dict[str, Any], allowed: bool) -> None:
    server = a_server(an_account(annotations=ENFORCED, secrets=[{"name": "own"}]))
    assert server.post(PODS, a_pod(**spec)).status == (201 if allowed else 403)
