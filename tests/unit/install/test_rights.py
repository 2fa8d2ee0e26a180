"""The table of rights: no wildcard, a scenario for each rule, and the same rights in the examples and in the roles."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from tools.render_rights import EXAMPLES, FILES, render

from headgate.install.manifests import install_objects
from headgate.install.options import COMPONENTS, GatePolicyOptions, InstallOptions, LivePageOptions, with_components
from headgate.install.rights import (
    DASHBOARD_RULES,
    GATE_POLICY_RULES,
    GATE_POLICY_USER_RULES,
    LEASES,
    METRICS_RULES,
    RULES,
    STATUS_RULES,
    UNINSTALL_RULES,
    USER_RULES,
    atoms,
)
from headgate.install.roles import policy_rules
from headgate.runtime.webhooks import configurations, registrar

Object = dict[str, Any]
EVERY = [
    *(rule for rules in (*RULES.values(), *USER_RULES.values()) for rule in rules),
    *METRICS_RULES,
    *DASHBOARD_RULES,
    *GATE_POLICY_RULES,
    *GATE_POLICY_USER_RULES,
    *UNINSTALL_RULES,
    *STATUS_RULES,
]


@pytest.mark.parametrize("name", render())
def test_an_example_file_is_what_the_table_says(name: str) -> None:
    assert (EXAMPLES / name).read_text() == render()[name], "run: python tools/render_rights.py"


@pytest.mark.parametrize("name", FILES)
def test_the_account_of_an_example_has_the_rights_of_its_components_and_no_others(name: str) -> None:
    documents = list(yaml.safe_load_all((EXAMPLES / name).read_text()))
    expected = set().union(*(atoms(RULES[component]) for component in FILES[name].components))
    assert _granted(documents) == expected


@pytest.mark.parametrize("component", COMPONENTS)
def test_an_installed_component_has_the_rights_of_the_table_and_no_others(component: str) -> None:
    options = with_components(InstallOptions(), [component])
    assert isinstance(options, InstallOptions)
    roles = [
        each
        for each in install_objects(options, "headgate-system")
        if each["metadata"]["name"] == f"headgate-component-{component}"
    ]
    assert _granted(roles) == atoms(RULES[component])


def test_gate_policies_have_rights_only_if_they_are_switched_on() -> None:
    def roles(options: InstallOptions) -> list[Object]:
        objects = install_objects(options, "headgate-system")
        return [each for each in objects if "gate-polic" in each["metadata"]["name"]]

    assert roles(InstallOptions()) == []
    made = roles(InstallOptions(gate_policies=GatePolicyOptions(enabled=True)))
    assert _granted(made) == atoms((*GATE_POLICY_RULES, *GATE_POLICY_USER_RULES))


def test_the_live_page_has_the_rights_that_its_documentation_prints_and_no_others() -> None:
    options = InstallOptions(dashboard=LivePageOptions(enabled=True))
    objects = install_objects(options, "headgate-system")
    roles = [each for each in objects if each["metadata"]["name"] == "headgate-dashboard"]
    (printed,) = re.findall(r"```yaml\n(.*?)```", (EXAMPLES.parent / "docs" / "dashboard.md").read_text(), re.DOTALL)
    assert _granted(roles) == _granted([yaml.safe_load(printed)]) == atoms(DASHBOARD_RULES)
    assert {each["kind"] for each in roles if each.get("rules")} == {"ClusterRole"}


def test_the_live_page_writes_nothing_but_questions_about_rights() -> None:
    written = {(rule.group, *rule.resources) for rule in DASHBOARD_RULES if {*rule.verbs} - {"get", "list", "watch"}}
    assert written == {("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")}


def test_the_live_page_may_watch_all_that_it_shows() -> None:
    from headgate.dashboard.io.feed import WATCHED

    granted = {(group, resource) for _, group, resource, _, verb in atoms(DASHBOARD_RULES) if verb == "watch"}
    assert granted == {(each.group, each.plural) for each in WATCHED} | {
        ("apiextensions.k8s.io", "customresourcedefinitions")
    }


def test_every_rule_names_its_scenario_and_none_has_a_wildcard() -> None:
    for rule in EVERY:
        assert rule.reason.endswith((".", "?")), rule
        assert "*" not in (rule.group, *rule.resources, *rule.verbs), rule
        assert rule.resources, rule
        assert rule.verbs, rule


def test_only_named_objects_of_cluster_wide_kinds_may_be_changed_by_webhooks_and_uninstallation() -> None:
    """A right to write all definitions or all webhook configurations is a right to do anything."""
    for rule in EVERY:
        if rule.group in ("admissionregistration.k8s.io", "apiextensions.k8s.io"):
            written = {*rule.verbs} - {"get", "list", "watch", "create"}
            assert rule.names or not written, rule


def test_rules_for_the_same_objects_are_one_rule_of_the_role() -> None:
    rules = policy_rules(RULES["scheduler"])
    pods = [each for each in rules if each["resources"] == ["pods"]]
    assert [sorted(each["verbs"]) for each in pods] == [["delete", "get", "list", "patch", "watch"]]


def test_the_names_are_those_that_the_processes_use() -> None:
    from headgate.cli.wiring.controllers import GATE_POLICIES_LEASE, JOBS_LEASE, QUOTA_LEASE
    from headgate.install.names import REMOVED, WEBHOOK_STATE
    from headgate.install.rights import CONFIGURATION_NAME, KUEUE_LEASE, LEASE_NAMESPACE
    from headgate.runtime.lease_owners import GATES_LEASE, kueue_lease
    from headgate.scheduling.config.types import LeaderElection

    election = LeaderElection()
    assert (LEASE_NAMESPACE, LEASES["quota"]) == QUOTA_LEASE
    assert (LEASE_NAMESPACE, LEASES["jobs"]) == JOBS_LEASE
    assert (LEASE_NAMESPACE, LEASES["gate-policies"]) == GATE_POLICIES_LEASE
    assert (LEASE_NAMESPACE, LEASES["scheduler"]) == (election.resource_namespace, election.resource_name)
    assert configurations.NAME == CONFIGURATION_NAME
    assert kueue_lease().name == KUEUE_LEASE
    assert (LEASE_NAMESPACE, LEASES["gates"]) == GATES_LEASE
    assert (registrar.STATE, registrar.REMOVED) == (WEBHOOK_STATE, REMOVED)


def _granted(documents: list[Object]) -> set[tuple[str, str, str, str, str]]:
    return {
        (_scope(each), group, resource, name, verb)
        for each in documents
        for rule in each.get("rules") or ()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or ("",)
        for verb in rule["verbs"]
    }


def _scope(role: Object) -> str:
    if role["kind"] == "ClusterRole":
        return "cluster"
    return {"kube-system": "kube-system", "headgate-system": "own namespace"}[role["metadata"]["namespace"]]
