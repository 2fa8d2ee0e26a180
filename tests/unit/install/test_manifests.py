"""The objects of an installation: which there are for which options, and how the pods are secured."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

import headgate
from headgate.install.manifests import install_objects, needed_definitions
from headgate.install.options import (
    ComponentOptions,
    InstallOptions,
    QueueOptions,
    gates_only,
    problem_of,
    read_values,
    with_components,
)
from headgate.kube.field_errors import FieldErrors

Object = dict[str, Any]


def _deployment(options: InstallOptions, namespace: str = "headgate-system") -> Object:
    (found,) = [each for each in install_objects(options, namespace) if each["kind"] == "Deployment"]
    return found


def _deployments(options: InstallOptions) -> list[Object]:
    return [each for each in install_objects(options, "headgate-system") if each["kind"] == "Deployment"]


def _names(options: InstallOptions) -> set[str]:
    return {f"{each['kind']}/{each['metadata']['name']}" for each in install_objects(options, "headgate-system")}


def test_the_namespace_is_first_and_what_pods_need_comes_before_the_deployment() -> None:
    kinds = [each["kind"] for each in install_objects(InstallOptions(), "headgate-system")]
    assert kinds[0] == "Namespace"
    for earlier in ("ServiceAccount", "Secret", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service"):
        assert max(index for index, kind in enumerate(kinds) if kind == earlier) < kinds.index("Deployment")


def test_an_object_exists_once() -> None:
    keys = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in install_objects(InstallOptions(), "headgate-system")
    ]
    assert len(keys) == len(set(keys))


def test_the_pods_fulfil_the_restricted_standard_and_cannot_write_their_root() -> None:
    pod = _deployment(InstallOptions())["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
    assert container["securityContext"] == context
    assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]
    namespace = install_objects(InstallOptions(), "headgate-system")[0]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_a_namespace_of_the_system_is_not_labelled() -> None:
    assert install_objects(InstallOptions(), "kube-system")[0]["metadata"] == {"name": "kube-system"}


def test_the_arguments_name_the_components_the_service_and_the_secret() -> None:
    (container,) = _deployment(InstallOptions(extra_args=["--gate-all-pods"]), "other")["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["args"] == [
        "run",
        "--components=scheduler,webhooks,quota,jobs",
        "--metrics-listen=0.0.0.0:8080",
        "--webhook-service=other/headgate",
        "--webhook-secret=other/headgate-webhooks",
        "--webhook-listen=0.0.0.0:9443",
        "--log-level=info",
        "--log-format=text",
        "--gate-all-pods",
    ]


def test_without_webhooks_there_is_neither_their_service_nor_their_secret_nor_their_port() -> None:
    options = with_components(InstallOptions(), ["quota", "jobs"])
    assert isinstance(options, InstallOptions)
    names = _names(options)
    assert not {"Service/headgate", "Secret/headgate-webhooks", "ClusterRole/headgate-component-webhooks"} & names
    (container,) = _deployment(options)["spec"]["template"]["spec"]["containers"]
    assert [each["name"] for each in container["ports"]] == ["metrics"]
    assert not [each for each in container["args"] if "webhook" in each]


def test_gates_only_has_one_queue_and_only_the_kinds_of_volcano() -> None:
    options = gates_only(QueueOptions("team-a", {"cpu": "20"}))
    queue = install_objects(options, "headgate-system")[-1]
    assert (queue["kind"], queue["metadata"]["name"]) == ("Queue", "team-a")
    assert queue["spec"]["capability"] == {"cpu": "20"}
    assert queue["metadata"]["annotations"] == {"scheduling.volcano.sh/queue-allocation-gate": "true"}
    names = [each["metadata"]["name"] for each in needed_definitions(options)]
    assert sorted(names) == ["podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh"]


def test_gate_policies_exist_only_on_request() -> None:
    options = read_values({"gatePolicies": {"enabled": True}})
    assert isinstance(options, InstallOptions)
    definitions = [each["metadata"]["name"] for each in needed_definitions(options)]
    assert "gatepolicies.headgate.dev" in definitions
    (container,) = _deployment(options)["spec"]["template"]["spec"]["containers"]
    assert "--feature-gates=GateOwnership=true" in container["args"]
    plain = [each["metadata"]["name"] for each in needed_definitions(InstallOptions())]
    assert set(definitions) - set(plain) == {"gatepolicies.headgate.dev"}
    assert _names(options) - _names(InstallOptions()) == {
        "ClusterRole/headgate-component-gate-policies",
        "ClusterRoleBinding/headgate-component-gate-policies",
        "Role/headgate-component-gate-policies",
        "RoleBinding/headgate-component-gate-policies",
        "ClusterRole/headgate-gate-policy-viewer",
    }


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"components": {"webhooks": False}}, "gatePolicies needs webhooks"),
        ({"extraArgs": ["--feature-gates=ActivationLabels=true"]}, "add GateOwnership=true to it"),
    ],
)
def test_gate_policies_that_would_not_be_applied_are_refused(values: Object, problem: str) -> None:
    options = read_values({**values, "gatePolicies": {"enabled": True}})
    assert isinstance(options, InstallOptions)
    assert problem in problem_of(options)


def _page(values: Object) -> dict[str, Object]:
    options = read_values({"dashboard": {"enabled": True}, **values})
    assert isinstance(options, InstallOptions)
    objects = install_objects(options, "headgate-system")
    return {each["kind"]: each for each in objects if each["metadata"]["name"] == "headgate-dashboard"}


def test_the_live_page_exists_only_on_request_and_has_an_account_of_its_own() -> None:
    assert not [each for each in _names(InstallOptions()) if "dashboard" in each]
    made = _page({})
    kinds = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Service", "NetworkPolicy", "Deployment"}
    assert made.keys() == kinds
    pod = made["Deployment"]["spec"]["template"]
    assert pod["spec"]["serviceAccountName"] == "headgate-dashboard"
    assert made["ClusterRoleBinding"]["subjects"][0]["name"] == "headgate-dashboard"
    for selector in (made["Service"]["spec"]["selector"], made["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]):
        assert selector.items() <= pod["metadata"]["labels"].items()
        assert selector["app.kubernetes.io/component"] == "dashboard"
    (manager,) = _deployments(InstallOptions())
    assert not manager["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_the_live_page_prints_no_token_and_makes_a_certificate_unless_a_secret_has_one() -> None:
    (container,) = _page({})["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [
        "dashboard",
        "--listen=0.0.0.0:8443",
        "--user-tokens-only",
        "--own-certificate",
        "--log-level=info",
        "--log-format=text",
    ]
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
    assert container["securityContext"] == context
    pod = _page({"dashboard": {"enabled": True, "tlsSecret": "page"}})["Deployment"]["spec"]["template"]["spec"]
    assert {"name": "certificate", "secret": {"secretName": "page"}} in pod["volumes"]
    (container,) = pod["containers"]
    assert "--own-certificate" not in container["args"]
    assert "--tls-cert-file=/etc/headgate-tls/tls.crt" in container["args"]
    assert "--tls-private-key-file=/etc/headgate-tls/tls.key" in container["args"]
    assert {"name": "certificate", "mountPath": "/etc/headgate-tls", "readOnly": True} in container["volumeMounts"]


def test_the_live_page_has_actions_on_request_and_no_more_rights_for_them() -> None:
    with_actions = _page({"dashboard": {"enabled": True, "allowActions": True}})
    (container,) = with_actions["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert "--allow-actions" in container["args"]
    assert with_actions["ClusterRole"] == _page({})["ClusterRole"]


def test_the_live_page_has_no_network_policy_if_none_is_wanted() -> None:
    assert "NetworkPolicy" not in _page({"networkPolicy": {"enabled": False}})


def test_a_secret_of_the_live_page_that_no_secret_can_be_is_refused() -> None:
    options = read_values({"dashboard": {"tlsSecret": "Not A Name"}})
    assert isinstance(options, InstallOptions)
    assert problem_of(options).startswith("dashboard.tlsSecret 'Not A Name'")


def test_monitoring_objects_exist_only_on_request() -> None:
    kinds = {each.partition("/")[0] for each in _names(InstallOptions())}
    assert not kinds & {"PodMonitor", "ServiceMonitor", "PrometheusRule", "ConfigMap"}
    switch = {"enabled": True}
    monitoring = dict.fromkeys(("podMonitor", "serviceMonitor", "prometheusRule", "dashboard"), switch)
    options = read_values({"monitoring": monitoring})
    assert isinstance(options, InstallOptions)
    kinds = {each.partition("/")[0] for each in _names(options)}
    assert kinds >= {"PodMonitor", "ServiceMonitor", "PrometheusRule", "ConfigMap"}


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, f"headgate:{headgate.__version__}"),
        ({"repository": "registry.example/headgate", "tag": "1.2"}, "registry.example/headgate:1.2"),
        ({"tag": "1.2", "digest": "sha256:abc"}, "headgate@sha256:abc"),
    ],
)
def test_the_image_has_the_digest_or_else_the_tag_or_else_the_version(image: Object, expected: str) -> None:
    options = read_values({"image": image})
    assert isinstance(options, InstallOptions)
    (container,) = _deployment(options)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == expected


@pytest.mark.parametrize(
    ("components", "problem"),
    [
        ([], "no component is chosen"),
        (["scheduler", "gates", "webhooks"], "exclude each other"),
        (["gates"], "gates needs webhooks"),
    ],
)
def test_components_that_do_not_fit_together_are_refused(components: list[str], problem: str) -> None:
    options = InstallOptions(components=ComponentOptions(**{name: name in components for name in _EVERY}))
    assert problem in problem_of(options)


_EVERY = ("scheduler", "gates", "webhooks", "quota", "jobs")


def test_a_queue_without_a_component_that_serves_it_is_refused() -> None:
    options = with_components(InstallOptions(queue=QueueOptions("team-a")), ["quota"])
    assert isinstance(options, InstallOptions)
    assert "no component serves the queue team-a" in problem_of(options)


def _errors(document: Any) -> FieldErrors:
    found = read_values(document)
    assert isinstance(found, list), found
    return found


@pytest.mark.parametrize("replicas", [0, -1, 101, 10**12, 10**30, 1.5, "2", True])
def test_a_number_of_replicas_that_no_installation_has_is_refused(replicas: Any) -> None:
    assert [each.path for each in _errors({"replicas": replicas})] == ["replicas"]


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"extraArgs": [None]}, "extraArgs[0]"),
        ({"extraArgs": "--gate-all-pods"}, "extraArgs"),
        ({"podLabels": {"a": 1}}, "podLabels.a"),
        ({"queue": {"capability": {"cpu": True}}}, "queue.capability.cpu"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"components": {"webhook": True}}, "components.webhook"),
        ({"tolerations": [[]]}, "tolerations[0]"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_path(values: Object, path: str) -> None:
    assert [each.path for each in _errors(values)] == [path]


def test_a_limit_of_a_queue_may_be_a_number() -> None:
    options = read_values({"queue": {"name": "a", "capability": {"cpu": 4, "memory": "1Gi"}}})
    assert isinstance(options, InstallOptions)
    assert options.queue.capability == {"cpu": 4, "memory": "1Gi"}


def test_an_unknown_value_is_refused_with_its_path() -> None:
    assert [str(each) for each in _errors({"image": {"repositry": "x"}, "replicas": 10**12})] == [
        "image.repositry: Forbidden: unknown field: is it repository?",
        "replicas: Invalid value: 1000000000000: must be at least 1 and at most 100",
    ]
    assert read_values(None) == InstallOptions()


def test_a_map_of_a_values_file_adds_to_the_default_and_null_removes_it() -> None:
    options = read_values({"resources": {"limits": {"memory": None, "cpu": "2"}}})
    assert isinstance(options, InstallOptions)
    assert options.resources == {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "2"}}
    assert read_values({"tolerations": None, "priorityClassName": None}) == InstallOptions()
    emptied = read_values({"tolerations": [], "priorityClassName": ""})
    assert emptied == InstallOptions(tolerations=[], priority_class_name="")
    assert [each.detail for each in _errors(["replicas"])] == ["a values file is a map of options"]


def test_an_unknown_component_is_refused_by_name() -> None:
    assert with_components(InstallOptions(), ["scheduller"]) == (
        "scheduller is not one of scheduler, gates, webhooks, quota, jobs"
    )


def test_a_configuration_is_a_file_of_the_pods() -> None:
    options = InstallOptions(configuration={"queues": {"gateAllPods": True}})
    (found,) = [each for each in install_objects(options, "headgate-system") if each["kind"] == "ConfigMap"]
    assert json.loads(found["data"]["headgate.yaml"]) == {
        "apiVersion": "headgate.dev/v1alpha1",
        "kind": "Configuration",
        "queues": {"gateAllPods": True},
    }
    pod = _deployment(options)["spec"]["template"]["spec"]
    assert {"name": "configuration", "configMap": {"name": found["metadata"]["name"]}} in pod["volumes"]
    assert pod["containers"][0]["args"][1] == "--config=/etc/headgate/headgate.yaml"


def test_labels_of_the_user_win_over_those_of_the_installation() -> None:
    options = msgspec.structs.replace(InstallOptions(), pod_labels={"app.kubernetes.io/version": "mine", "team": "a"})
    labels = _deployment(options)["spec"]["template"]["metadata"]["labels"]
    assert (labels["app.kubernetes.io/version"], labels["team"]) == ("mine", "a")


def _monitored(*, secure: bool) -> dict[str, Object]:
    monitoring = {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}
    options = read_values({"metrics": {"secure": secure}, "monitoring": monitoring})
    assert isinstance(options, InstallOptions)
    objects = install_objects(options, "headgate-system")
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in objects}


def test_a_replica_is_ready_while_it_answers_webhooks_whether_or_not_it_has_listed_all_objects() -> None:
    def readiness(components: ComponentOptions) -> Object:
        (container,) = _deployment(InstallOptions(components=components))["spec"]["template"]["spec"]["containers"]
        found: Object = container["readinessProbe"]["httpGet"]
        return found

    assert readiness(ComponentOptions()) == {"path": "/readyz", "port": "webhooks", "scheme": "HTTPS"}
    assert readiness(ComponentOptions(webhooks=False)) == {"path": "/readyz", "port": "metrics"}


def test_secure_metrics_have_a_token_for_monitors_and_probes_over_https() -> None:
    objects = _monitored(secure=True)
    (container,) = objects["Deployment/headgate"]["spec"]["template"]["spec"]["containers"]
    assert "--metrics-secure" in container["args"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    token = objects["Secret/headgate-metrics-token"]
    (pod,) = objects["PodMonitor/headgate"]["spec"]["podMetricsEndpoints"]
    (service,) = objects["ServiceMonitor/headgate"]["spec"]["endpoints"]
    for endpoint in (pod, service):
        assert endpoint["scheme"] == "https"
        assert endpoint["authorization"]["credentials"] == {"name": token["metadata"]["name"], "key": "token"}
    account = token["metadata"]["annotations"]["kubernetes.io/service-account.name"]
    (subject,) = objects[f"ClusterRoleBinding/{account}"]["subjects"]
    assert (subject["name"], f"ServiceAccount/{account}" in objects) == (account, True)
    assert objects[f"ClusterRole/{account}"]["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    asked = objects["ClusterRole/headgate-component-metrics"]["rules"]
    assert [each["resources"] for each in asked] == [["tokenreviews"], ["subjectaccessreviews"]]


def test_without_secure_metrics_there_is_neither_a_token_nor_a_right_to_ask_about_users() -> None:
    objects = _monitored(secure=False)
    assert not [name for name in objects if "metrics-" in name or (name.endswith("-metrics") and "Role" in name)]
    (container,) = objects["Deployment/headgate"]["spec"]["template"]["spec"]["containers"]
    assert "scheme" not in container["livenessProbe"]["httpGet"]
    (endpoint,) = objects["PodMonitor/headgate"]["spec"]["podMetricsEndpoints"]
    assert endpoint.keys() == {"port", "path", "interval"}
