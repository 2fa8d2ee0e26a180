"""The existing installation is found in whichever namespace, and no other namespace can touch it."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.install.existing import (
    ExistingInstallation,
    UnknownInstallation,
    elsewhere,
    existing_installations,
)
from headgate.install.options import InstallOptions, QueueOptions, gates_only
from headgate.install.uninstall_steps import UninstallError
from unit.install.installation import NAMESPACE, STRANGER, Installation

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"


def _found(made: Installation) -> Any:
    return made.perform(existing_installations())


def _managed_by_helm(made: Installation) -> None:
    labels, annotations = {"app.kubernetes.io/managed-by": "Helm"}, {"meta.helm.sh/release-name": "queues"}
    for component in ("scheduler", "webhooks", "quota", "jobs"):
        path = f"{BINDINGS}/headgate-component-{component}"
        assert made.server.patch(path, {"metadata": {"labels": labels, "annotations": annotations}}).status == 200


def _webhooks(made: Installation, namespace: str) -> str:
    """What a replica of the installation of this namespace registers."""
    client = {"service": {"name": "headgate", "namespace": namespace, "path": "/"}}
    webhook = {"name": "pods.headgate.dev", "clientConfig": client, "sideEffects": "None"}
    labels = {"app.kubernetes.io/managed-by": "headgate"}
    body = {
        "metadata": {"name": "headgate", "labels": labels},
        "webhooks": [{**webhook, "admissionReviewVersions": ["v1"]}],
    }
    made.create(f"{CONFIGURATIONS}/validatingwebhookconfigurations", body)
    return f"{CONFIGURATIONS}/validatingwebhookconfigurations/headgate"


def test_a_cluster_without_headgate_has_no_installation() -> None:
    assert _found(Installation()) == []


@pytest.mark.parametrize("options", [InstallOptions(), gates_only(QueueOptions())])
def test_an_installation_is_found_by_its_bindings(options: InstallOptions) -> None:
    made = Installation()
    made.install(options)
    assert _found(made) == [ExistingInstallation(NAMESPACE)]
    assert elsewhere(_found(made), NAMESPACE) == []
    assert elsewhere(_found(made), "other") == [ExistingInstallation(NAMESPACE)]


def test_the_service_of_a_webhook_of_another_program_is_no_installation() -> None:
    made = Installation()
    path = _webhooks(made, NAMESPACE)
    found = made.get(path)
    client = {"service": {"name": "check", "namespace": "other"}}
    found["webhooks"].append({**found["webhooks"][0], "name": "check.example.com", "clientConfig": client})
    assert made.server.put(path, found).status == 200
    assert _found(made) == [ExistingInstallation(NAMESPACE)]


def test_an_installation_of_helm_names_its_release_and_its_commands() -> None:
    made = Installation()
    made.install()
    _managed_by_helm(made)
    (found,) = _found(made)
    assert found == ExistingInstallation(NAMESPACE, "queues")
    assert "by the Helm release queues in namespace headgate-system" in found.conflict
    assert "helm upgrade queues --namespace headgate-system" in found.conflict
    assert found.removal == "helm uninstall queues --namespace headgate-system"


def test_webhooks_name_the_namespace_of_an_installation_without_its_bindings() -> None:
    made = Installation()
    _webhooks(made, "queues")
    assert _found(made) == [ExistingInstallation("queues")]


def test_whether_there_is_an_installation_is_unknown_without_the_right_to_look() -> None:
    made = Installation(STRANGER)
    found = _found(made)
    assert isinstance(found, UnknownInstallation)
    assert "missing right: get clusterrolebindings.rbac.authorization.k8s.io" in found.text


@pytest.mark.parametrize("prepares", [False, True])
def test_uninstallation_with_a_wrong_namespace_deletes_nothing_and_says_the_command(prepares: bool) -> None:
    made = Installation()
    made.install()
    path = _webhooks(made, NAMESPACE)
    made.sent.clear()
    flag = "--prepare " if prepares else ""
    expected = f"in namespace {NAMESPACE}, not in other; .* run: headgate uninstall {flag}--namespace {NAMESPACE}$"
    with pytest.raises(UninstallError, match=expected):
        made.uninstall("other", prepares=prepares)
    assert made.sent == []
    assert made.get(path)


def test_uninstallation_continues_when_the_namespace_was_deleted_first() -> None:
    made = Installation()
    made.install()
    path = _webhooks(made, NAMESPACE)
    made.server.delete(f"/api/v1/namespaces/{NAMESPACE}")
    made.uninstall()
    assert made.get(path) is None
    assert _found(made) == []


def test_an_installation_in_two_namespaces_can_be_removed_from_either() -> None:
    """As an earlier release left it that changed only some of the bindings."""
    made = Installation()
    made.install()
    subject = {"kind": "ServiceAccount", "name": "headgate", "namespace": "other"}
    made.server.patch(f"{BINDINGS}/headgate-component-quota", {"subjects": [subject]})
    assert {each.namespace for each in _found(made)} == {NAMESPACE, "other"}
    made.uninstall("other")
    assert _found(made) == []
