"""Applying and checking: a second time nothing changes, differences are named, and objects of others stay."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from embedded import TOKEN
from headgate.http.transport import HTTPResponse
from headgate.install.applying import apply_object, helm_release, refusal
from headgate.install.checking import check_object, lacking_rights, refusals
from headgate.install.manifests import install_objects, needed_definitions
from headgate.install.options import InstallOptions, QueueOptions, gates_only, read_values
from unit.install.installation import NAMESPACE, STRANGER, Installation

Object = dict[str, Any]
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/headgate"


@pytest.fixture(scope="module")
def installed() -> Installation:
    made = Installation()
    assert {each.action for each in made.install()} == {"created"}
    return made


def test_applying_again_changes_nothing(installed: Installation) -> None:
    assert {each.action for each in installed.install()} == {"unchanged"}


def test_a_complete_installation_is_present_in_all_its_objects(installed: Installation) -> None:
    options = InstallOptions()
    found = [
        installed.perform(check_object(each))
        for each in (*needed_definitions(options), *install_objects(options, NAMESPACE))
    ]
    assert {each.state for each in found} == {"present"}, [each for each in found if each.state != "present"]


def test_a_changed_object_differs_in_the_named_fields_and_is_configured_again(installed: Installation) -> None:
    deployment = install_objects(InstallOptions(), NAMESPACE)[-1]
    installed.server.patch(DEPLOYMENT, {"spec": {"replicas": 5}})
    found = installed.perform(check_object(deployment))
    assert (found.state, found.detail) == ("differs", "spec.replicas")
    assert installed.perform(apply_object(deployment)).action == "configured"
    assert installed.perform(check_object(deployment)).state == "present"


def test_a_missing_object_is_missing(installed: Installation) -> None:
    queue = install_objects(InstallOptions(), "another-namespace")[0]
    assert installed.perform(check_object(queue)).state == "missing"


def test_a_kind_that_is_not_served_says_what_to_install(installed: Installation) -> None:
    options = read_values({"monitoring": {"podMonitor": {"enabled": True}}})
    assert isinstance(options, InstallOptions)
    (monitor,) = [each for each in install_objects(options, NAMESPACE) if each["kind"] == "PodMonitor"]
    assert "install the Prometheus Operator" in installed.perform(apply_object(monitor)).problem


def test_an_installation_of_helm_is_recognized() -> None:
    made = Installation()
    assert made.perform(helm_release(NAMESPACE)) == ""
    made.install()
    assert made.perform(helm_release(NAMESPACE)) == ""
    annotations = {"meta.helm.sh/release-name": "queues"}
    made.server.patch(
        DEPLOYMENT, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": annotations}}
    )
    assert made.perform(helm_release(NAMESPACE)) == "queues"


def test_an_administrator_lacks_no_right(installed: Installation) -> None:
    assert installed.perform(lacking_rights(install_objects(InstallOptions(), NAMESPACE))) == []


def test_the_missing_rights_of_a_user_are_named() -> None:
    made = Installation()
    made.server.post(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": "basic"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:basic-user"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}],
        },
    )
    made.server.post(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        {
            "metadata": {"name": "system:basic-user"},
            "rules": [
                {"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews"], "verbs": ["create"]}
            ],
        },
    )
    made.token = STRANGER
    deployment = install_objects(InstallOptions(), NAMESPACE)[-1]
    assert made.perform(lacking_rights([deployment])) == [
        "get deployments.apps in namespace headgate-system",
        "create deployments.apps in namespace headgate-system",
        "patch deployments.apps in namespace headgate-system",
    ]
    outcome = made.perform(apply_object(deployment))
    assert outcome.problem.startswith("missing right: get deployments.apps in namespace headgate-system")
    assert made.perform(check_object(deployment)).state == "unknown"


def test_a_definition_of_another_program_is_not_changed() -> None:
    made = Installation()
    definition = needed_definitions(InstallOptions())[0]
    name = definition["metadata"]["name"]
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    theirs = {**definition, "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "Helm"}}}
    made.create(path, theirs)
    before = made.get(f"{path}/{name}")
    made.install()
    assert made.get(f"{path}/{name}") == before
    found = made.perform(check_object(definition))
    assert (found.state, found.detail) == ("not ours", "another program installed it; it is used and not changed")


def test_a_namespace_that_a_user_created_is_not_changed_and_not_deleted() -> None:
    made = Installation()
    made.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": {"team": "platform"}}})
    before = made.get(f"/api/v1/namespaces/{NAMESPACE}")
    assert made.install()[0].action == "left as it is"
    namespace = install_objects(InstallOptions(), NAMESPACE)[0]
    assert made.perform(check_object(namespace)).state == "not ours"
    made.uninstall()
    assert made.get(f"/api/v1/namespaces/{NAMESPACE}") == before


def _queue(name: str, **capability: str | int) -> Object:
    return install_objects(gates_only(QueueOptions(name, capability)), NAMESPACE)[-1]


def test_a_queue_that_a_user_created_is_not_changed() -> None:
    made = Installation()
    made.install(gates_only(QueueOptions()))
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "theirs"},
        "spec": {"weight": 5, "capability": {"cpu": "77"}},
    }
    made.create(QUEUES, body)
    before = made.get(f"{QUEUES}/theirs")
    outcome = made.perform(apply_object(_queue("theirs", cpu="2")))
    assert (outcome.action, outcome.problem) == ("left as it is", "")
    assert outcome.detail.startswith("a user created it; it is not changed")
    checked = made.perform(check_object(_queue("theirs", cpu="2")))
    assert (checked.state, checked.detail) == ("not ours", outcome.detail)
    assert made.get(f"{QUEUES}/theirs") == before


def test_only_the_named_limits_of_the_installations_own_queue_change() -> None:
    made = Installation()
    made.install(gates_only(QueueOptions("mine", {"cpu": "2", "memory": "4Gi"})))
    assert made.perform(apply_object(_queue("mine"))).action == "unchanged", "without --capability"
    made.server.patch(f"{QUEUES}/mine", {"spec": {"weight": 5}})
    assert made.perform(check_object(_queue("mine"))).state == "present"
    assert made.perform(check_object(_queue("mine", cpu="3"))).detail == "spec.capability.cpu"
    assert made.perform(apply_object(_queue("mine", cpu="3"))).action == "configured"
    spec = made.get(f"{QUEUES}/mine")["spec"]
    assert (spec["weight"], spec["capability"]) == (5, {"cpu": "3", "memory": "4Gi"})


def _refusal(message: str) -> str:
    deployment = install_objects(InstallOptions(), NAMESPACE)[-1]
    return refusal(HTTPResponse(403, {}, msgspec.json.encode({"message": message})), "patch", deployment)


@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "policy.example.com" denied the request: images must have a digest',
        'admission webhook "policy.example.com" denied the request: forbidden: User "ann" cannot deploy on Sunday',
        'deployments.apps "headgate" is forbidden: exceeded quota: count, requested: count/deployments.apps=1',
        'pods "headgate" is forbidden: violates PodSecurity "restricted:latest": privileged',
    ],
)
def test_a_denial_of_admission_is_not_a_missing_right(message: str) -> None:
    assert _refusal(message) == f"refused by the admission control of the server: {message}"


def test_a_write_to_a_namespace_that_is_being_deleted_says_so() -> None:
    made = Installation()
    made.install()
    made.server.delete(f"/api/v1/namespaces/{NAMESPACE}")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", "namespace": NAMESPACE}}
    outcome = made.perform(apply_object(body))
    assert outcome.problem.startswith(f"the namespace {NAMESPACE} is being deleted: run the command again")


def test_a_denial_of_the_authorization_is_a_missing_right() -> None:
    message = 'deployments.apps "headgate" is forbidden: User "ann" cannot patch resource "deployments"'
    assert _refusal(message).startswith("missing right: patch deployments.apps in namespace headgate-system")


def test_no_right_is_needed_for_objects_that_stay_as_they_are() -> None:
    """A namespace and a queue of a user, and definitions of other programs. Of the others, those that exist need no
    right to create, and those that do not exist need it."""
    made = Installation()
    options = gates_only(QueueOptions("theirs", {"cpu": "2"}))
    definitions = needed_definitions(options)
    for each in definitions:
        meta = {"name": each["metadata"]["name"], "labels": {"app.kubernetes.io/managed-by": "Helm"}}
        made.create(DEFINITIONS, {**each, "metadata": meta})
    made.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "theirs"}}
    made.create(QUEUES, {**queue, "spec": {"weight": 5}})
    objects = [*definitions, *install_objects(options, NAMESPACE)]
    made.allow("get", "list")
    made.token = STRANGER
    kinds = {each.split()[1] for each in made.perform(lacking_rights(objects))}
    assert "deployments.apps" in kinds
    assert not kinds & {"namespaces", "queues.scheduling.volcano.sh", "customresourcedefinitions.apiextensions.k8s.io"}
    assert {each.split()[3] for each in made.perform(refusals(objects))} == kinds
    made.token = TOKEN
    made.install(options)
    made.token = STRANGER
    assert {each.split()[0] for each in made.perform(lacking_rights(objects))} == {"patch"}


def test_the_dry_run_before_the_first_write_has_the_limits_that_the_queue_keeps() -> None:
    made = Installation()
    made.install(gates_only(QueueOptions("mine", {"cpu": "2"})))
    sent: list[bytes] = []
    made.before_request = lambda request: sent.append(request.body) if "dryRun" in request.query else None
    assert made.perform(refusals([_queue("mine", memory="4Gi")])) == []
    (body,) = sent
    assert msgspec.json.decode(body)["spec"]["capability"] == {"cpu": "2", "memory": "4Gi"}


def test_an_object_of_another_owner_is_a_conflict_unless_it_is_adopted() -> None:
    made = Installation()
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    made.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    made.create(path, {"metadata": {"name": "headgate"}})
    (account,) = [each for each in install_objects(InstallOptions(), NAMESPACE) if each["kind"] == "ServiceAccount"]
    (problem,) = made.perform(refusals([account]))
    assert problem.startswith("serviceaccount/headgate: it exists and is not of this installation: ")
    assert made.perform(check_object(account)).state == "conflict"
    assert made.perform(refusals([account], adopts=True)) == []
    assert made.perform(apply_object(account, adopts=True)).action == "configured"
    assert made.perform(check_object(account)).state == "present"
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    made.server.patch(f"{path}/headgate", {"metadata": {"labels": labels}})
    assert "the Helm release headgate manages it" in made.perform(apply_object(account)).problem
