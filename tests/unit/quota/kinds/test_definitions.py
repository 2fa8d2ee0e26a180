"""The definitions of kueue.x-k8s.io: which versions are served, and which definitions are not changed."""

from __future__ import annotations

import pytest

from headgate.kube.crd_builder import is_installed_by_headgate
from headgate.quota.kinds.definitions import adapted, definitions

CUSTOM = definitions(with_older=False)


def served(definition: dict[str, object] | None) -> list[str]:
    assert definition is not None
    spec = definition["spec"]
    assert isinstance(spec, dict)
    return [each["name"] for each in spec["versions"] if each["served"]]


def test_seven_kinds_are_stored_in_v1beta2() -> None:
    assert [each["spec"]["names"]["kind"] for each in CUSTOM] == [
        "ResourceFlavor",
        "ClusterQueue",
        "Cohort",
        "LocalQueue",
        "Workload",
        "WorkloadPriorityClass",
        "AdmissionCheck",
    ]
    for each in CUSTOM:
        assert [version["name"] for version in each["spec"]["versions"] if version["storage"]] == ["v1beta2"]


def test_v1beta1_is_served_only_with_a_conversion() -> None:
    assert [served(each) for each in CUSTOM] == [["v1beta2"]] * 7
    assert [served(each) for each in definitions(with_older=True)] == [["v1beta1", "v1beta2"]] * 7


def test_a_missing_definition_is_installed_unchanged() -> None:
    assert adapted(CUSTOM[0], None) == CUSTOM[0]


def test_a_version_that_is_served_stays_served() -> None:
    assert served(adapted(CUSTOM[1], definitions(with_older=True)[1])) == ["v1beta1", "v1beta2"]
    assert served(adapted(CUSTOM[1], CUSTOM[1])) == ["v1beta2"]


def test_definitions_of_kueue_are_not_changed() -> None:
    theirs = {**CUSTOM[1], "metadata": {"name": CUSTOM[1]["metadata"]["name"]}}
    assert is_installed_by_headgate(CUSTOM[1])
    assert not is_installed_by_headgate(theirs)
    assert adapted(CUSTOM[1], theirs) is None


@pytest.mark.parametrize(
    ("labels", "managers", "is_ours"),
    [
        ({"app.kubernetes.io/managed-by": "headgate"}, [], True),
        ({"app.kubernetes.io/managed-by": "Helm", "headgate.dev/definition": "true"}, [], True),
        ({"app.kubernetes.io/managed-by": "Helm"}, ["headgate"], False),
        ({"app.kubernetes.io/managed-by": "kueue", "headgate.dev/definition": "true"}, [], False),
        ({}, ["headgate"], True),
        ({}, ["headgate", "kubectl"], False),
        ({}, [], False),
    ],
)
def test_a_definition_belongs_to_the_program_that_installed_it(
    labels: dict[str, str], managers: list[str], is_ours: bool
) -> None:
    """Without labels, as version 0.2.0 installed Volcano's kinds, the only field manager decides."""
    fields = [{"manager": each} for each in managers] + [{"manager": "kube-apiserver", "subresource": "status"}]
    assert is_installed_by_headgate({"metadata": {"labels": labels, "managedFields": fields}}) is is_ours
