"""Objects of options that are not set any more: which are found, which are removed and when, and which stay."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.admission.settings import AdmissionSettings
from headgate.http.transport import HTTPRequest
from headgate.install.applying import apply_object
from headgate.install.manifests import EVERYTHING, install_objects
from headgate.install.names import entry_component
from headgate.install.options import InstallOptions, QueueOptions, gates_only, read_values, with_components
from headgate.install.pruning import PrunePlan, kept_queues, left_over, look_for_left_over, prune, withdraw_webhooks
from headgate.install.uninstall_steps import UninstallError
from headgate.runtime.webhooks.configurations import MUTATING, VALIDATING, component_of, desired_webhooks
from headgate.runtime.webhooks.target import WebhookTarget, parse_service
from unit.install.installation import CORE, GROUPS, NAMESPACE, STRANGER, Installation

Object = dict[str, Any]
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/headgate-webhooks"


def _options(*components: str, **values: Any) -> InstallOptions:
    options = read_values(values)
    assert isinstance(options, InstallOptions), options
    chosen = with_components(options, list(components)) if components else options
    assert isinstance(chosen, InstallOptions), chosen
    return chosen


def _left_over(made: Installation, options: InstallOptions, namespace: str = NAMESPACE) -> list[str]:
    found = made.perform_steps(left_over(options, namespace), print)
    return [f"{each['kind']}/{each['metadata']['name']}" for each in found]


def _prune(made: Installation, options: InstallOptions) -> list[str]:
    lines: list[str] = []
    made.perform_steps(prune(PrunePlan(options, NAMESPACE)), lines.append)
    return lines


def _configure(made: Installation, *, service: str = f"{NAMESPACE}/headgate") -> None:
    """What replicas with webhooks and jobs write."""
    target = parse_service(service)
    assert isinstance(target, WebhookTarget)
    settings = AdmissionSettings(frozenset(), suspends_jobs=True)
    for resource in (MUTATING, VALIDATING):
        body = {
            "metadata": {"name": "headgate", "labels": {"app.kubernetes.io/managed-by": "headgate"}},
            "webhooks": desired_webhooks(resource, settings, target, b"", with_conditions=False),
        }
        made.create(f"{CONFIGURATIONS}/{resource.plural}", body)


def _entries(made: Installation, resource: Any = MUTATING) -> list[str]:
    found = made.get(f"{CONFIGURATIONS}/{resource.plural}/headgate")
    return [] if found is None else [each["name"] for each in found["webhooks"]]


def test_the_same_options_leave_nothing_over() -> None:
    made = Installation()
    made.install()
    assert _left_over(made, InstallOptions()) == []
    made.sent.clear()
    assert _prune(made, InstallOptions()) == []
    assert made.sent == []


def test_objects_of_options_that_are_not_set_any_more_are_found_and_removed() -> None:
    made = Installation()
    before = _options(
        gatePolicies={"enabled": True},
        metrics={"secure": True},
        monitoring={"dashboard": {"enabled": True}},
        configuration={"queues": {"gateAllPods": True}},
        additionalRules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    )
    made.install(before)
    after = _options("scheduler", "webhooks", networkPolicy={"enabled": False}, userRoles={"enabled": False})
    made.install(after)
    expected = {f"{each['kind']}/{each['metadata']['name']}" for each in install_objects(before, NAMESPACE)} - {
        f"{each['kind']}/{each['metadata']['name']}" for each in install_objects(after, NAMESPACE)
    }
    found = _left_over(made, after)
    assert set(found) == expected
    assert {"ClusterRole/headgate-component-quota", "NetworkPolicy/headgate", "ClusterRole/headgate-view"} <= expected
    lines = _prune(made, after)
    assert "clusterrole.rbac.authorization.k8s.io/headgate-component-quota pruned: it is of other options" in lines
    assert len(lines) == len(found)
    assert _left_over(made, after) == []
    assert made.get(f"{ROLES}/headgate-component-scheduler"), "an object of the present options stays"


def test_the_prune_covers_every_object_that_an_installation_may_have() -> None:
    """With the least options, each object of any option is left over, except those that every installation has."""
    least = _options("quota", networkPolicy={"enabled": False}, userRoles={"enabled": False})
    made = Installation()
    made.install(EVERYTHING)
    everything = {f"{each['kind']}/{each['metadata']['name']}" for each in install_objects(EVERYTHING, NAMESPACE)}
    always = {f"{each['kind']}/{each['metadata']['name']}" for each in install_objects(least, NAMESPACE)}
    not_served = {f"{kind}/headgate" for kind in ("PodMonitor", "ServiceMonitor", "PrometheusRule")}
    assert set(_left_over(made, least)) == everything - always - not_served


def test_definitions_the_namespace_and_queues_stay() -> None:
    made = Installation()
    made.install(_options(gatePolicies={"enabled": True}, queue={"name": "team-a"}))
    definitions = [each["metadata"]["name"] for each in made.get(DEFINITIONS)["items"]]
    after = _options("quota")
    made.install(after)
    _prune(made, after)
    assert [each["metadata"]["name"] for each in made.get(DEFINITIONS)["items"]] == definitions
    assert made.get(f"/api/v1/namespaces/{NAMESPACE}")
    assert made.get("/apis/scheduling.volcano.sh/v1beta1/queues/team-a")
    assert made.perform_steps(kept_queues(after, NAMESPACE), print) == ["team-a"]
    named = gates_only(QueueOptions("team-a"))
    assert made.perform_steps(kept_queues(named, NAMESPACE), print) == []


@pytest.mark.parametrize(
    "labels",
    [
        {"app.kubernetes.io/managed-by": "Helm"},
        {"app.kubernetes.io/managed-by": None},
        {"app.kubernetes.io/part-of": "mine"},
        {"app.kubernetes.io/instance": "another-namespace"},
        {"app.kubernetes.io/instance": None},
    ],
)
def test_objects_of_users_of_helm_and_of_other_installations_stay(labels: dict[str, str | None]) -> None:
    made = Installation()
    made.install()
    role = f"{ROLES}/headgate-component-quota"
    assert made.server.patch(role, {"metadata": {"labels": labels}}).status == 200
    after = _options("scheduler", "webhooks")
    made.perform(apply_object(install_objects(after, NAMESPACE)[-1]))
    assert "ClusterRole/headgate-component-quota" not in _left_over(made, after)
    _prune(made, after)
    assert made.get(role)


def test_an_object_that_is_replaced_while_it_is_pruned_stays() -> None:
    """The deletion names the uid of the object that was looked at."""
    made = Installation()
    made.install()
    role = f"{ROLES}/headgate-component-quota"

    def replace(request: HTTPRequest) -> None:
        if request.method == "DELETE" and request.path == role and made.sent.count(f"DELETE {role}") == 0:
            made.server.delete(role)
            made.create(ROLES, {"metadata": {"name": "headgate-component-quota"}, "rules": []})

    after = _options("scheduler", "webhooks")
    made.install(after)
    made.before_request = replace
    with pytest.raises(UninstallError, match="headgate-component-quota"):
        _prune(made, after)
    assert made.get(role)["rules"] in ([], None)


def test_webhooks_are_withdrawn_before_the_deployment_changes_and_their_objects_go_after_it() -> None:
    made = Installation()
    made.install()
    _configure(made)
    name = f"{DEFINITIONS}/workloads.kueue.x-k8s.io"
    found = made.get(name)
    service = {"namespace": NAMESPACE, "name": "headgate", "path": "/convert"}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    found["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    found["spec"]["versions"] = [{**each, "served": True} for each in found["spec"]["versions"]]
    assert made.server.put(name, found).status == 200
    after = _options("scheduler", "quota")
    made.sent.clear()
    lines: list[str] = []
    made.perform_steps(withdraw_webhooks(PrunePlan(after, NAMESPACE)), lines.append)
    assert made.sent[:3] == [
        f"PATCH {SECRET}",
        f"DELETE {CONFIGURATIONS}/mutatingwebhookconfigurations/headgate",
        f"DELETE {CONFIGURATIONS}/validatingwebhookconfigurations/headgate",
    ]
    assert made.get(name)["spec"]["conversion"] == {"strategy": "None"}
    assert made.get(SECRET)["metadata"]["annotations"]["headgate.dev/webhooks"] == "removed"
    made.install(after)
    _configure(made)  # a replica of another release restored them
    _prune(made, after)
    assert (_entries(made), made.get(SECRET)) == ([], None)


@pytest.mark.parametrize("lost", [SECRET, f"/api/v1/namespaces/{NAMESPACE}/services/headgate"])
def test_webhooks_are_withdrawn_also_if_an_object_of_them_was_deleted(lost: str) -> None:
    """A replica creates the Secret again, without the labels of the installation."""
    made = Installation()
    made.install()
    _configure(made)
    assert made.server.delete(lost).status == 200
    if lost == SECRET:
        again = {"name": "headgate-webhooks", "labels": {"app.kubernetes.io/part-of": "headgate"}}
        made.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": again})
    after = _options("scheduler", "quota", "jobs")
    found = made.perform_steps(look_for_left_over(PrunePlan(after, NAMESPACE)), print)
    assert "validatingwebhookconfiguration.admissionregistration.k8s.io/headgate" in found.names
    made.perform_steps(withdraw_webhooks(PrunePlan(after, NAMESPACE)), print)
    assert (_entries(made), _entries(made, VALIDATING)) == ([], [])
    assert made.get(SECRET)["metadata"]["annotations"]["headgate.dev/webhooks"] == "removed"
    if lost == SECRET:
        made.install(after)
        _configure(made)  # a replica of another release restored them
        _prune(made, after)
        assert (_entries(made), _entries(made, VALIDATING)) == ([], [])


def test_without_jobs_only_their_entries_leave_the_webhook_configurations() -> None:
    made = Installation()
    made.install()
    _configure(made)
    assert any(component_of(each) == "jobs" for each in _entries(made))
    after = _options("scheduler", "webhooks", "quota")
    found = made.perform_steps(look_for_left_over(PrunePlan(after, NAMESPACE)), print)
    assert "mutatingwebhookconfiguration.admissionregistration.k8s.io/headgate" in found.names
    made.install(after)
    _prune(made, after)
    for resource in (MUTATING, VALIDATING):
        assert {component_of(each) for each in _entries(made, resource)} == {"webhooks"}
    assert made.get(SECRET)["metadata"]["annotations"]["headgate.dev/webhooks"] == "registered"


def test_the_names_of_entries_say_the_same_component_here_and_in_the_replicas() -> None:
    settings = AdmissionSettings(frozenset(), suspends_jobs=True)
    target = parse_service(f"{NAMESPACE}/headgate")
    assert isinstance(target, WebhookTarget)
    names = [each["name"] for kind in (MUTATING, VALIDATING) for each in desired_webhooks(kind, settings, target, b"")]
    assert {entry_component(each) for each in names} == {"webhooks", "jobs"}
    assert all(entry_component(each) == component_of(each) for each in names)
    assert entry_component("policy.example.com") == ""


def test_webhooks_of_processes_outside_the_installation_stay() -> None:
    made = Installation()
    made.install(_options("scheduler", "webhooks"))
    _configure(made, service="elsewhere/headgate")
    before = _entries(made)
    after = _options("scheduler")
    made.perform_steps(withdraw_webhooks(PrunePlan(after, NAMESPACE)), print)
    assert _entries(made) == before
    made = Installation()
    made.install(after)
    made.create(
        f"/api/v1/namespaces/{NAMESPACE}/secrets",
        {"metadata": {"name": "headgate-webhooks", "labels": {"app.kubernetes.io/part-of": "headgate"}}},
    )
    _configure(made)
    before = _entries(made)
    _prune(made, after)
    assert _entries(made) == before, "the installation has no webhooks: these are of processes that a user started"


def _pod(name: str, *arguments: str) -> Object:
    labels = {"app.kubernetes.io/name": "headgate", "app.kubernetes.io/component": "manager"}
    containers = [{"name": "headgate", "image": "i", "args": list(arguments)}]
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": containers}}


def test_nothing_is_pruned_while_pods_with_the_former_options_run() -> None:
    made = Installation()
    made.install()
    made.create(PODS, _pod("former", "run", "--components=quota"))
    after = _options("scheduler", "webhooks")
    made.install(after)
    with pytest.raises(UninstallError, match="pods with the former options still run after 120 s: former"):
        _prune(made, after)
    assert made.get(f"{ROLES}/headgate-component-quota")
    polls = 0

    def end(request: HTTPRequest) -> None:
        nonlocal polls
        polls += request.path == "/version"
        if polls == 3:
            made.server.delete(f"{PODS}/former", {"gracePeriodSeconds": 0})

    made.before_request = end
    _prune(made, after)
    assert polls == 3
    assert made.get(f"{ROLES}/headgate-component-quota") is None


def test_pods_with_the_present_arguments_are_not_awaited() -> None:
    made = Installation()
    after = _options("scheduler", "webhooks")
    made.install(_options("scheduler", "webhooks", userRoles={"enabled": True}))
    (deployment,) = [each for each in install_objects(after, NAMESPACE) if each["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    made.create(PODS, _pod("present", *container["args"]))
    without = _options("scheduler", "webhooks", userRoles={"enabled": False})
    made.install(without)
    assert len(_prune(made, without)) == 5


def test_pods_with_other_arguments_are_not_awaited_if_nothing_is_to_be_pruned() -> None:
    made = Installation()
    made.install()
    made.create(PODS, _pod("former", "run", "--log-level=debug"))
    reads: list[str] = []
    made.before_request = lambda request: reads.append(request.path)
    assert _prune(made, InstallOptions()) == []
    assert "/version" not in reads


def test_objects_of_another_installation_at_the_same_time_stay() -> None:
    """It applies other options while this one waits for the former pods."""
    made = Installation()
    made.install()
    after = _options("scheduler", "webhooks")
    made.install(after)
    made.create(PODS, _pod("former", "run", "--components=quota"))

    def install_others(request: HTTPRequest) -> None:
        if request.path == "/version":
            made.before_request = lambda _: None
            made.install()

    made.before_request = install_others
    with pytest.raises(UninstallError, match="nothing was pruned: another client changed the installation"):
        _prune(made, after)
    assert made.get(f"{ROLES}/headgate-component-quota")


def test_entries_are_withdrawn_and_objects_stay_if_objects_are_kept() -> None:
    made = Installation()
    made.install()
    _configure(made)
    after = _options("scheduler", "webhooks", "quota")
    made.install(after)
    made.perform_steps(prune(PrunePlan(after, NAMESPACE, keeps_objects=True)), print)
    for resource in (MUTATING, VALIDATING):
        assert {component_of(each) for each in _entries(made, resource)} == {"webhooks"}
    assert made.get(f"{ROLES}/headgate-component-jobs")


def test_what_cannot_be_read_is_named_and_the_rest_is_pruned() -> None:
    made = Installation()
    made.install()
    after = _options("scheduler", "webhooks")
    made.install(after)
    readable = tuple(each for each in CORE if each != "configmaps")
    made.allow("*", of={"": readable, **GROUPS})
    made.token = STRANGER
    lines = _prune(made, after)
    assert "clusterrole.rbac.authorization.k8s.io/headgate-component-quota pruned: it is of other options" in lines
    assert [each for each in lines if "not known" in each] == [
        f"not known whether more is to be pruned: missing right: get configmaps {name} in namespace {NAMESPACE}"
        for name in ("headgate-dashboard", "headgate-configuration")
    ]
