"""The options of `headgate install`: what they print, and which do not fit together.

One file, longer than a module should be: each test is one command line, and the tests do not depend on each other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from headgate.cli.commands import install as install_module
from headgate.cli.main import main
from headgate.http.transport import HTTPRequest, HTTPResponse
from unit.install.installation import CORE, GROUPS, STRANGER, Installation

Object = dict[str, Any]


def _printed(*words: str) -> list[Object]:
    done = CliRunner().invoke(main, ["install", *words])
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.output))


def _image(*words: str) -> str:
    (deployment,) = [each for each in _printed(*words) if each["kind"] == "Deployment"]
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def test_the_namespace_comes_first_then_the_definitions_then_all_others() -> None:
    kinds = [each["kind"] for each in _printed()]
    assert kinds[0] == "Namespace"
    assert kinds[1:10] == ["CustomResourceDefinition"] * 9
    assert "CustomResourceDefinition" not in kinds[10:]


@pytest.mark.parametrize(
    "image",
    [
        "registry.example/headgate:1.2",
        "registry.example:5000/headgate:1.2",
        "registry.example:5000/headgate@sha256:abc",
        "my_team/headgate:1.2",
        "head__gate:1.2",
    ],
)
def test_an_image_is_used_as_it_is_given(image: str) -> None:
    assert _image("--image", image) == image


def test_definitions_can_be_left_out() -> None:
    kinds = [each["kind"] for each in _printed("--skip-crds")]
    assert "CustomResourceDefinition" not in kinds
    assert kinds == [each["kind"] for each in _printed() if each["kind"] != "CustomResourceDefinition"]


def test_an_image_without_a_tag_has_the_version() -> None:
    assert _image("--image", "registry.example:5000/headgate").startswith("registry.example:5000/headgate:")


def test_a_queue_has_the_given_limits() -> None:
    words = ("--gates-only", "--queue", "team-a", "--capability", "cpu=20", "--capability", "nvidia.com/gpu=4")
    queue = _printed(*words)[-1]
    assert queue["spec"]["capability"] == {"cpu": "20", "nvidia.com/gpu": "4"}


def test_the_live_page_is_added_by_an_option() -> None:
    names = [each["metadata"]["name"] for each in _printed("--dashboard") if each["kind"] == "Deployment"]
    assert names == ["headgate", "headgate-dashboard"]
    assert [each["metadata"]["name"] for each in _printed() if each["kind"] == "Deployment"] == ["headgate"]


def test_options_of_the_command_line_override_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("replicas: 5\npodLabels: {team: a}\n")
    (deployment,) = [
        each for each in _printed("--values", str(file), "--replicas", "3") if each["kind"] == "Deployment"
    ]
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["template"]["metadata"]["labels"]["team"] == "a"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--components", "scheduler,gatess"), "gatess is not one of scheduler, gates, webhooks, quota, jobs"),
        (("--gates-only", "--components", "quota"), "--gates-only chooses the components; leave --components out"),
        (("--wait", "5"), "--wait is for --status"),
        (("--capability", "cpu=1"), "--capability is the limit of --queue: name the queue"),
        (("--queue", "a", "--capability", "cpu"), "'cpu' is not RESOURCE=AMOUNT, such as cpu=20"),
        (("--components", "quota", "--queue", "a"), "no component serves the queue a"),
        (("--apply", "--check"), "--print, --apply, --check and --status exclude each other: choose one"),
        (("--print", "--status"), "--print, --apply, --check and --status exclude each other: choose one"),
        (("--apply", "--namespace", ""), "'' cannot be the name of a namespace"),
        (("--apply", "--namespace", "Bad_NS"), "'Bad_NS' cannot be the name of a namespace"),
        (("--queue", "Q_x"), "queue 'Q_x': a lowercase RFC 1123 subdomain"),
        (("--queue", "a", "--capability", "cpu=abc"), "capability cpu=abc: 'abc' is not a quantity"),
        (("--queue", "a", "--capability", "cpu=-1"), "capability cpu=-1: the limit must not be negative"),
        (("--queue", "a", "--capability", "c u=1"), "'c u' is not the name of a resource"),
        (("--components", "scheduler,gates,webhooks"), "scheduler and gates exclude each other"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(words: tuple[str, ...], problem: str) -> None:
    done = CliRunner().invoke(main, ["install", *words])
    assert done.exit_code == 2
    assert problem in done.output


@pytest.mark.parametrize("namespace", ["", "Bad_NS"])
def test_uninstall_refuses_a_name_that_no_namespace_can_have(namespace: str) -> None:
    done = CliRunner().invoke(main, ["uninstall", "--namespace", namespace])
    assert done.exit_code == 2
    assert f"{namespace!r} cannot be the name of a namespace" in done.output


def _refused(tmp_path: Path, text: str | bytes) -> list[str]:
    """The lines of the error of `headgate install --values FILE`, without the file."""
    file = tmp_path / "values.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    done = CliRunner().invoke(main, ["install", "--values", str(file)])
    assert done.exit_code == 2, done.output
    _, _, listed = done.output.partition("Error: Invalid value for --values: ")
    return [line.removeprefix(f"{file}") for line in listed.splitlines()]


def test_a_values_file_with_an_unknown_option_is_refused_by_path(tmp_path: Path) -> None:
    assert _refused(tmp_path, "image: {repositry: x}\nreplicas: 1000000000000\n") == [
        ":1: image.repositry: Forbidden: unknown field: is it repository?",
        ":2: replicas: Invalid value: 1000000000000: must be at least 1 and at most 100",
    ]


def test_a_values_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (line,) = _refused(tmp_path, b"\xff\xfe\x00\x81\x8d")
    assert "this is neither YAML nor JSON" in line


def test_repeated_keys_and_a_second_document_are_refused_with_their_lines(tmp_path: Path) -> None:
    assert _refused(tmp_path, "replicas: 2\nimage:\n  tag: a\n  tag: b\nreplicas: 3\n---\nreplicas: 4\n") == [
        ':4: Forbidden: key "tag" already set in map: remove one of the two',
        ':5: Forbidden: key "replicas" already set in map: remove one of the two',
        ":7: Forbidden: a second YAML document begins here, and only one is read: put it into a file of its own",
    ]


def test_a_key_beside_a_merge_key_overrides_the_merged_one(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("podLabels: &base {team: a, tier: gold}\nnodeSelector:\n  <<: *base\n  team: b\n")
    (deployment,) = [each for each in _printed("--values", str(file)) if each["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["nodeSelector"] == {"team": "b", "tier": "gold"}


def test_typing_errors_in_the_configuration_of_the_pods_are_refused_by_path(tmp_path: Path) -> None:
    text = "configuration:\n  queues:\n    gateAlPods: true\n  jobs:\n    waitForPodsReady: {timeout: soon}\n"
    first, second = _refused(tmp_path, text)
    assert first == ":3: configuration.queues.gateAlPods: Forbidden: unknown field: is it gateAllPods?"
    assert second.startswith(":5: configuration.jobs.waitForPodsReady.timeout: Invalid value")


def test_an_address_of_webhooks_beside_the_service_is_refused(tmp_path: Path) -> None:
    """The pods have --webhook-service, and `headgate run` refuses both."""
    (line,) = _refused(tmp_path, "configuration: {webhooks: {url: 'https://10.0.0.1:443'}}\n")
    assert line.startswith(":1: configuration.webhooks.url: Forbidden")


def test_metrics_over_tls_that_the_probes_do_not_know_of_are_refused(tmp_path: Path) -> None:
    (line,) = _refused(tmp_path, "configuration: {metrics: {secure: true}}\n")
    assert line.startswith(":1: configuration.metrics.secure: Forbidden: the probes of the pods depend on it")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("--gate-al-pods", "--gate-all-pods"),
        ("--gated-pod-events=many", "is not a valid integer"),
        ("--log-level=debug", "set logLevel in place of it"),
        ("--metrics-listen=0.0.0.0:9090", "the port that the installation sets"),
        ("--no-metrics-secure", "set metrics.secure of the values in place of it"),
        ("--feature-gates=Foo=true", "unrecognized feature gate: Foo"),
        ("--max-wait-for-terminating-pods, soon", "'soon' is no time above zero"),
        ("--trusted-user", "requires an argument"),
        ("gate-all-pods", "an option begins with --"),
        ("--", "takes no arguments"),
        ("--components=quota", "set components in place of it"),
        ("--webhook-url=https://10.0.0.1", "through its Service"),
        ("--help", "the pods would print it and end"),
        ("--scheduler-name=", "the value is empty"),
        ("--gated-scheduler-name, ''", "the value is empty"),
        ("--config=", "the value is empty"),
    ],
)
def test_arguments_that_the_pods_would_refuse_are_refused_by_path(arguments: str, problem: str, tmp_path: Path) -> None:
    (line,) = _refused(tmp_path, f"extraArgs: [--takeover, {arguments}]\n")
    assert line.startswith(":1: extraArgs[1]: "), line
    assert problem in line


def test_arguments_that_name_files_of_the_pods_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("extraArgs: [--job-kinds=/no/such/file, --config, /no/other/file, --gated-scheduler-name=a]\n")
    (deployment,) = [each for each in _printed("--values", str(file)) if each["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"][-4:] == [
        *("--job-kinds=/no/such/file", "--config", "/no/other/file", "--gated-scheduler-name=a"),
    ]


@pytest.mark.parametrize("replicas", ["0", "-1", "101", "1000000000000"])
def test_a_number_of_replicas_that_no_installation_has_is_refused(replicas: str) -> None:
    done = CliRunner().invoke(main, ["install", "--replicas", replicas])
    assert done.exit_code == 2
    assert "is not in the range 1<=x<=100" in done.output


def test_uninstall_prepares_for_helm_or_deletes_data() -> None:
    done = CliRunner().invoke(main, ["uninstall", "--prepare", "--delete-data"])
    assert done.exit_code == 2
    assert "run --delete-data after helm uninstall" in done.output


class _OnServer:
    """The transport of a command that has no socket: requests go to the embedded server."""

    def __init__(self, made: Installation) -> None:
        self._made = made

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        return self._made.request(request)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Installation:
    made = Installation()

    @contextlib.asynccontextmanager
    async def connect(_: object) -> AsyncIterator[_OnServer]:
        yield _OnServer(made)

    monkeypatch.setattr(install_module, "connect", connect)
    monkeypatch.setattr(install_module, "rest_config_or_exit", lambda *_: None)
    return made


def _typed(*words: str) -> Result:
    return CliRunner().invoke(main, ["install", *words])


def test_an_installation_in_another_namespace_is_refused_before_anything_is_written(cluster: Installation) -> None:
    assert _typed("--apply").exit_code == 0
    cluster.sent.clear()
    done = _typed("--apply", "--namespace", "other")
    assert done.exit_code == 1
    assert cluster.sent == []
    assert "Headgate is installed in namespace headgate-system, and a cluster has one installation" in done.output
    assert "first run: headgate uninstall --namespace headgate-system; nothing was written" in done.output
    checked = _typed("--check", "--namespace", "other")
    assert checked.exit_code == 1
    assert checked.output.startswith("existing installation: Headgate is installed in namespace headgate-system")
    assert _typed("--apply").exit_code == 0, "the same namespace may be applied again"


DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io"


def _delete_definition(cluster: Installation) -> None:
    """A finalizer keeps the definition, as its objects do."""
    cluster.server.patch(DEFINITION, {"metadata": {"finalizers": ["example.com/keep"]}})
    assert cluster.server.delete(DEFINITION).status == 200


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(_: float) -> None:
        return

    monkeypatch.setattr(asyncio, "sleep", sleep)


@pytest.mark.usefixtures("instant")
def test_apply_waits_until_a_definition_is_deleted_and_creates_it_again(cluster: Installation) -> None:
    assert _typed("--apply").exit_code == 0
    _delete_definition(cluster)
    checked = _typed("--check")
    assert checked.exit_code == 1
    assert "customresourcedefinition.apiextensions.k8s.io/workloads.kueue.x-k8s.io: being deleted" in checked.output
    reads = 0

    def finish(request: HTTPRequest) -> None:
        nonlocal reads
        reads += request.path == DEFINITION
        if reads == 5:
            cluster.server.patch(DEFINITION, {"metadata": {"finalizers": []}})

    cluster.before_request = finish
    done = _typed("--apply")
    assert done.exit_code == 0, done.output
    name = "customresourcedefinition.apiextensions.k8s.io/workloads.kueue.x-k8s.io"
    assert f"{name} is being deleted; waiting until it is gone" in done.output
    assert f"{name} created" in done.output


@pytest.mark.usefixtures("instant")
def test_a_definition_whose_deletion_does_not_end_is_an_error(cluster: Installation) -> None:
    assert _typed("--apply").exit_code == 0
    _delete_definition(cluster)
    done = _typed("--apply")
    assert done.exit_code == 1
    assert "workloads.kueue.x-k8s.io: it is being deleted and exists still" in done.output


def test_a_namespace_that_is_being_deleted_is_refused_before_anything_is_written(cluster: Installation) -> None:
    assert _typed("--apply").exit_code == 0
    assert cluster.server.delete("/api/v1/namespaces/headgate-system").status == 200
    cluster.sent.clear()
    done = _typed("--apply")
    assert done.exit_code == 1
    assert "the namespace headgate-system is being deleted; nothing was written" in done.output
    assert cluster.sent == []
    assert _typed("--check").output.startswith("namespace/headgate-system: being deleted")


def test_a_deployment_that_is_being_deleted_is_refused_before_anything_is_written(cluster: Installation) -> None:
    """Its pods end: they would register their webhooks again if the Secret did not say `removed` any more."""
    assert _typed("--apply").exit_code == 0
    cluster.deployment_finalizers = ["foregroundDeletion"]
    path = "/apis/apps/v1/namespaces/headgate-system/deployments/headgate"
    cluster.server.patch(path, {"metadata": {"finalizers": ["foregroundDeletion"]}})
    assert cluster.server.delete(path).status == 200
    secret = "/api/v1/namespaces/headgate-system/secrets/headgate-webhooks"
    removed = {"metadata": {"annotations": {"headgate.dev/webhooks": "removed"}}}
    assert cluster.server.patch(secret, removed).status == 200
    cluster.sent.clear()
    done = _typed("--apply")
    assert done.exit_code == 1
    assert "deployment.apps/headgate is being deleted; nothing was written" in done.output
    assert cluster.sent == []
    assert cluster.get(secret)["metadata"]["annotations"]["headgate.dev/webhooks"] == "removed"


def test_what_other_options_left_is_reported_and_removed(cluster: Installation) -> None:
    assert _typed("--apply").exit_code == 0
    checked = _typed("--check", "--components", "scheduler,webhooks", "--replicas", "3")
    assert checked.exit_code == 1
    line = "clusterrole.rbac.authorization.k8s.io/headgate-component-quota: left over from other options"
    assert line in checked.output.splitlines()
    command = "headgate install --components scheduler,webhooks --replicas 3 --apply"
    assert f"to remove what is left over from other options, run: {command}" in checked.output
    kept = _typed("--apply", "--no-prune", "--components", "scheduler,webhooks", "--replicas", "3")
    assert kept.exit_code == 0
    assert "clusterrole.rbac.authorization.k8s.io/headgate-component-quota kept: left over" in kept.output
    assert "pruned" not in kept.output
    done = _typed("--apply", "--components", "scheduler,webhooks", "--replicas", "3")
    assert done.exit_code == 0
    pruned = "clusterrole.rbac.authorization.k8s.io/headgate-component-quota pruned: it is of other options"
    assert pruned in done.output.splitlines()
    lines = done.output.splitlines()
    assert lines.index("deployment.apps/headgate unchanged") < lines.index(pruned)
    again = _typed("--check", "--components", "scheduler,webhooks", "--replicas", "3")
    assert (again.exit_code, again.output.splitlines()[-1]) == (0, "The installation is complete.")


def test_the_command_to_type_has_no_options_of_the_log(cluster: Installation) -> None:
    assert _typed("--apply").exit_code == 0
    checked = _typed("--check", "--components", "scheduler,webhooks", "--log-level", "error")
    assert "run: headgate install --components scheduler,webhooks --apply\n" in checked.output


def test_webhooks_that_nothing_would_answer_are_withdrawn_also_with_no_prune(cluster: Installation) -> None:
    assert _typed("--apply").exit_code == 0
    service = {"namespace": "headgate-system", "name": "headgate"}
    entry = {
        "name": "pods.jobs.headgate.dev",
        "clientConfig": {"service": service},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    meta = {"name": "headgate", "labels": {"app.kubernetes.io/managed-by": "headgate"}}
    cluster.create(configurations, {"metadata": meta, "webhooks": [entry]})
    done = _typed("--apply", "--no-prune", "--components", "scheduler,quota,jobs")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    withdrawn = lines.index("validatingwebhookconfiguration.admissionregistration.k8s.io/headgate deleted")
    assert withdrawn < lines.index("deployment.apps/headgate configured")
    assert cluster.get(f"{configurations}/headgate") is None
    assert "service/headgate kept: left over from other options" in lines


def test_what_cannot_be_read_does_not_end_the_command(cluster: Installation) -> None:
    assert _typed("--apply").exit_code == 0
    cluster.allow("*", of={"": tuple(each for each in CORE if each != "configmaps"), **GROUPS})
    cluster.token = STRANGER
    missing = "missing right: get configmaps headgate-dashboard in namespace headgate-system"
    for mode, text in (
        (("--apply",), "not known whether more is to be pruned"),
        (("--apply", "--no-prune"), "not known whether more is left over from other options"),
    ):
        done = _typed(*mode)
        assert done.exit_code == 0, done.output
        assert f"{text}: {missing}" in done.output.splitlines()
    checked = _typed("--check")
    assert checked.exit_code == 1
    assert f"not known whether more is left over from other options: {missing}" in checked.output.splitlines()
    assert "monitoring" not in checked.output


def test_check_names_the_missing_rights_also_if_left_over_objects_cannot_be_read(cluster: Installation) -> None:
    assert _typed("--apply").exit_code == 0
    cluster.allow("get", "list", of={"": tuple(each for each in CORE if each != "secrets"), **GROUPS})
    cluster.token = STRANGER
    lines = _typed("--check", "--components", "scheduler").output.splitlines()
    right = lines.index("missing right: patch deployments.apps in namespace headgate-system")
    unknown = "missing right: get secrets headgate-webhooks in namespace headgate-system"
    assert right < lines.index(f"not known whether more is left over from other options: {unknown}")


def test_apply_lists_rights_to_read_what_it_must_withdraw(cluster: Installation) -> None:
    assert _typed("--apply").exit_code == 0
    cluster.sent.clear()
    cluster.allow("*", of={"": tuple(each for each in CORE if each != "secrets"), **GROUPS})
    cluster.token = STRANGER
    done = _typed("--apply", "--components", "scheduler")
    assert done.exit_code == 1
    assert "you lack these rights:\n  get secrets in namespace headgate-system\n" in done.output
    assert cluster.sent == []


def test_nothing_is_pruned_if_an_object_cannot_be_applied(cluster: Installation) -> None:
    assert _typed("--apply").exit_code == 0
    failing = "/apis/policy/v1/namespaces/headgate-system/poddisruptionbudgets/headgate"
    cluster.server.patch(failing, {"metadata": {"finalizers": ["example.com/keep"]}})
    cluster.server.delete(failing)
    done = _typed("--apply", "--components", "scheduler,webhooks")
    assert done.exit_code == 1
    assert "pruned" not in done.output
    assert cluster.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/headgate-component-quota")


def test_a_queue_of_other_options_is_reported_and_kept(cluster: Installation) -> None:
    assert _typed("--apply", "--queue", "team-a").exit_code == 0
    checked = _typed("--check")
    assert checked.exit_code == 0, checked.output
    assert "queue.scheduling.volcano.sh/team-a: left over from other options, and kept" in checked.output


def test_pruning_is_a_part_of_apply() -> None:
    done = CliRunner().invoke(main, ["install", "--check", "--no-prune"])
    assert done.exit_code == 2
    assert "--no-prune is for --apply" in done.output


def test_apply_lists_the_missing_rights_and_writes_nothing(cluster: Installation) -> None:
    cluster.allow("get", "list")
    cluster.token = STRANGER
    done = _typed("--apply")
    assert done.exit_code == 1
    assert "headgate install: nothing was written:\n  missing right: create namespaces\n" in done.output
    assert "missing right: patch deployments.apps in namespace headgate-system\n" in done.output
    assert "ask a cluster administrator" in done.output
    assert cluster.sent == []


def test_apply_needs_no_right_to_create_what_exists(cluster: Installation) -> None:
    assert _typed("--apply").exit_code == 0
    cluster.allow("get", "list", "patch", "escalate", "bind")
    cluster.token = STRANGER
    done = _typed("--apply")
    assert done.exit_code == 0, done.output
    assert cluster.server.delete("/api/v1/namespaces/headgate-system/services/headgate").status == 200
    done = _typed("--apply")
    assert done.exit_code == 1
    assert "  missing right: create services in namespace headgate-system\n" in done.output


def test_apply_refuses_a_role_with_rights_that_the_user_lacks_before_it_writes(cluster: Installation) -> None:
    cluster.allow("get", "list", "create", "patch")
    cluster.token = STRANGER
    done = _typed("--apply")
    assert done.exit_code == 1
    assert "you may not grant rights that you do not have" in done.output
    assert cluster.sent == []


@pytest.mark.parametrize("option", ["--components", "--queue", "--image"])
def test_an_empty_value_is_not_the_default(option: str) -> None:
    done = CliRunner().invoke(main, ["install", option, ""])
    assert done.exit_code == 2
    assert "the value is empty; leave the option out for its default" in done.output


@pytest.mark.parametrize("image", ["a b", ":tag", "x@", "häd:1", "x:a b", 'x"y', "x@sha256", "_x", "x_", "a//b"])
def test_an_image_that_no_registry_has_is_refused(image: str) -> None:
    done = CliRunner().invoke(main, ["install", "--image", image])
    assert done.exit_code == 2, done.output
    assert "image" in done.output


@pytest.mark.parametrize(
    "text",
    [
        "priorityClassName: 'a b'\n",
        "podLabels: {'a b': c}\n",
        "nodeSelector: {a: 'ü'}\n",
        "monitoring: {dashboard: {labels: {a: '\"'}}}\n",
    ],
)
def test_names_and_labels_that_the_server_would_refuse_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(text)
    done = CliRunner().invoke(main, ["install", "--values", str(file)])
    assert done.exit_code == 2, done.output


def test_objects_that_the_server_refuses_are_reported_before_anything_is_written(
    cluster: Installation, tmp_path: Path
) -> None:
    assert _typed("--apply").exit_code == 0
    cluster.sent.clear()
    file = tmp_path / "values.yaml"
    file.write_text("tolerations: [{operator: Sometimes}]\nuserRoles: {enabled: false}\n")
    done = _typed("--apply", "--values", str(file))
    assert done.exit_code == 1
    assert "headgate install: nothing was written:\n  deployment.apps/headgate: 422: " in done.output
    assert "spec.template.spec.tolerations[0].operator" in done.output
    assert cluster.sent == []


def test_an_interrupted_command_says_that_it_may_be_repeated(cluster: Installation) -> None:
    def interrupt(request: HTTPRequest) -> None:
        if request.method == "PATCH" and "/clusterroles/" in request.path and "dryRun" not in request.query:
            raise KeyboardInterrupt

    cluster.before_request = interrupt
    done = _typed("--apply")
    assert done.exit_code == 1
    assert "headgate install: interrupted; run the command again: it continues where it stopped" in done.output
    cluster.before_request = lambda request: None
    assert _typed("--apply").exit_code == 0
    assert _typed("--check").exit_code == 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("configuration: {dryRun: true}", "configuration.dryRun: Forbidden: the pods would write nothing"),
        (
            "configuration: {clientConnection: {kubeconfig: /home/ann/.kube/config}}",
            "configuration.clientConnection.kubeconfig: Forbidden: the pods use their ServiceAccount",
        ),
        (
            "configuration: {leaderElection: {leaderElect: false}}",
            "configuration.leaderElection.leaderElect: Forbidden: during an update two pods run",
        ),
        ("configuration: {logging: {level: debug}}", "configuration.logging.level: Forbidden: set logLevel"),
        ("configuration: {webhooks: {shutdownDelay: 30s}}", "configuration.webhooks.shutdownDelay: Invalid value"),
        (
            "configuration: {metrics: {certFile: a, keyFile: b}}",
            "configuration.metrics.certFile: Forbidden: metrics are not served over TLS",
        ),
        (
            "configuration: {scheduler: {names: [batch]}}",
            "configuration.scheduler.names: Forbidden: webhooks gate pods",
        ),
        ("extraArgs: [--no-leader-elect]", "extraArgs[0]: Forbidden: --no-leader-elect: during an update two pods run"),
        ("extraArgs: [--takeover, --dry-run]", "extraArgs[1]: Forbidden: --dry-run: the pods would write nothing"),
        ("extraArgs: [--kubeconfig=/k]", "extraArgs[0]: Forbidden: --kubeconfig=/k: the pods use their ServiceAccount"),
        ("extraArgs: [--shutdown-delay, 1m]", "extraArgs[0]: Invalid value"),
        ("extraArgs: [--metrics-key=/tmp/x]", "configuration.metrics.certFile: Required value"),
        ("{metrics: {secure: true}, extraArgs: [--metrics-cert=a]}", "configuration.metrics.keyFile: Required value"),
        ("extraArgs: [--metrics-cert=a, --metrics-key=b]", "extraArgs: --metrics-cert: "),
        ("extraArgs: [--scheduler-name=batch]", "extraArgs: --scheduler-name: webhooks gate pods"),
        (
            "extraArgs: ['--feature-gates=PodSchedulingReadiness=false,QueueAllocationGate=false']",
            "extraArgs: --feature-gates: pods wait in Kueue's queues behind scheduling gates",
        ),
        (
            "configuration: {featureGates: {PodSchedulingReadiness: false, QueueAllocationGate: false}}",
            "configuration.featureGates: Forbidden: pods wait in Kueue's queues behind scheduling gates",
        ),
    ],
)
def test_values_with_which_the_pods_would_not_work_are_refused_by_path(
    values: str, expected: str, tmp_path: Path
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(values)
    done = CliRunner().invoke(main, ["install", "--values", str(file)])
    assert done.exit_code == 2
    assert expected in done.output


@pytest.mark.parametrize(
    "values",
    [
        "configuration: {dryRun: false, leaderElection: {leaderElect: true}, webhooks: {shutdownDelay: 25s}}",
        "{metrics: {secure: true}, configuration: {metrics: {certFile: a, keyFile: b}}}",
        "extraArgs: [--leader-elect, --no-dry-run]",
    ],
)
def test_values_that_say_the_same_as_the_installation_are_accepted(values: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(values)
    assert CliRunner().invoke(main, ["install", "--values", str(file)]).exit_code == 0


def test_a_changed_configuration_changes_the_pods(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    found: list[Any] = []
    for configuration in ("{}", "{takeover: true}", "{takeover: false}", "{takeover: false}"):
        file.write_text(f"configuration: {configuration}")
        (deployment,) = [each for each in _printed("--values", str(file)) if each["kind"] == "Deployment"]
        found.append(deployment["spec"]["template"]["metadata"].get("annotations"))
    assert found[0] is None
    assert found[1] != found[2] == found[3]
    assert list(found[1]) == ["headgate.dev/configuration-sha256"]


def test_two_limits_of_one_resource_are_refused() -> None:
    arguments = ["install", "--gates-only", "--queue", "q", "--capability", "cpu=2", "--capability", "cpu=3"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "cpu has two limits, 2 and 3: name one" in done.output


def test_adopt_is_for_apply() -> None:
    assert "--adopt is for --apply" in CliRunner().invoke(main, ["install", "--adopt"]).output
