"""Uninstallation: the order of the steps, what is released, what stays, and that it may be repeated.

One file, longer than a module should be: each test runs the same steps on one cluster, and is read alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.capacity.names import GATE
from headgate.http.transport import HTTPRequest
from headgate.install.manifests import EVERYTHING, install_objects, install_templates
from headgate.install.options import InstallOptions, MetricsOptions, QueueOptions, gates_only
from headgate.install.uninstall_steps import UninstallError
from unit.install.installation import CORE, GROUPS, NAMESPACE, STRANGER, Installation

Object = dict[str, Any]
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
PODS = "/api/v1/namespaces/t/pods"
JOBS = "/apis/batch/v1/namespaces/t/jobs"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/headgate-webhooks"
IN_USE = "kueue.x-k8s.io/resource-in-use"
CONTAINERS = [{"name": "c", "image": "i"}]


def _in_use(options: InstallOptions | None = None) -> Installation:
    """An installation whose processes have made their objects, with pods, jobs and queues of users."""
    made = Installation()
    made.install(options)
    for kind in ("mutating", "validating"):
        body = {"metadata": {"name": "headgate", "labels": {"app.kubernetes.io/managed-by": "headgate"}}}
        made.create(f"{CONFIGURATIONS}/{kind}webhookconfigurations", body)
    made.create(LEASES, {"metadata": {"name": "headgate-quota"}, "spec": {"holderIdentity": ""}})
    gates = [{"name": GATE}, {"name": "example.com/other"}]
    made.create(PODS, {"metadata": {"name": "gated"}, "spec": {"containers": CONTAINERS, "schedulingGates": gates}})
    return made


def _with_quota(made: Installation) -> None:
    flavor = {"metadata": {"name": "f", "finalizers": [IN_USE, "example.com/keep"]}}
    made.create(
        f"{KUEUE}/resourceflavors", {**flavor, "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor"}
    )
    template = {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    for name in ("waits", "without-workload"):
        body: Object = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"suspend": True, "template": template},
        }
        job = made.create(JOBS, body)
        if name == "waits":
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
            sets = [{"name": "main", "count": 1, "template": template}]
            workload: Object = {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "Workload",
                "metadata": {"name": "w", "finalizers": [IN_USE], "ownerReferences": [owner]},
                "spec": {"queueName": "q", "podSets": sets},
            }
            made.create(f"{KUEUE}/namespaces/t/workloads", workload)


def _hold(made: Installation) -> str:
    """What `headgate hold` has come to."""
    path = f"{KUEUE}/namespaces/t/workloads/w"
    mark = {"annotations": {"headgate.dev/deactivated-by-label": "true"}}
    assert made.server.patch(path, {"metadata": mark, "spec": {"active": False}}).status == 200
    return path


def _names(found: Any) -> list[str]:
    return [each["name"] for each in found]


def test_the_webhooks_go_first_and_the_roles_last() -> None:
    made = _in_use()
    made.sent.clear()
    made.uninstall()
    patched = f"PATCH {SECRET}"
    webhooks = f"DELETE {CONFIGURATIONS}/mutatingwebhookconfigurations/headgate"
    deployment = f"DELETE /apis/apps/v1/namespaces/{NAMESPACE}/deployments/headgate"
    gate = f"PATCH {PODS}/gated"
    lease = f"DELETE {LEASES}/headgate-quota"
    role = "DELETE /apis/rbac.authorization.k8s.io/v1/clusterroles/headgate-component-quota"
    namespace = f"DELETE /api/v1/namespaces/{NAMESPACE}"
    order = [made.sent.index(each) for each in (patched, webhooks, deployment, gate, lease, role, namespace)]
    assert order == sorted(order)


def test_nothing_of_the_installation_is_left_and_a_second_time_does_nothing() -> None:
    made = _in_use()
    made.uninstall()
    assert made.get(f"/api/v1/namespaces/{NAMESPACE}") is None
    roles = made.get("/apis/rbac.authorization.k8s.io/v1/clusterroles")["items"]
    assert [each for each in roles if each["metadata"]["name"].startswith("headgate")] == []
    assert made.get(LEASES)["items"] == []
    made.sent.clear()
    assert made.uninstall() == []
    assert made.sent == []


def test_pods_of_headgate_that_have_failed_are_not_waited_for() -> None:
    """An evicted pod stays until its ReplicaSet is deleted, which a Deployment that is scaled to 0 keeps."""
    made = _in_use()
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    labels = {"app.kubernetes.io/name": "headgate", "app.kubernetes.io/component": "manager"}
    made.create(pods, {"metadata": {"name": "evicted", "labels": labels}, "spec": {"containers": CONTAINERS}})
    with pytest.raises(UninstallError, match="pods do not end: evicted"):
        made.uninstall(prepares=True)
    made.server.patch(f"{pods}/evicted/status", {"status": {"phase": "Failed", "reason": "Evicted"}})
    assert f"pod/t/gated lost gate {GATE}" in made.uninstall(prepares=True)


def test_only_the_gate_of_headgate_is_removed() -> None:
    made = _in_use()
    assert f"pod/t/gated lost gate {GATE}" in made.uninstall()
    assert _names(made.get(f"{PODS}/gated")["spec"]["schedulingGates"]) == ["example.com/other"]


def test_gates_are_kept_on_request() -> None:
    made = _in_use()
    _with_quota(made)
    made.uninstall(lifts_gates=False)
    assert _names(made.get(f"{PODS}/gated")["spec"]["schedulingGates"]) == [GATE, "example.com/other"]
    assert made.get(f"{JOBS}/waits")["spec"]["suspend"] is True
    assert "finalizers" not in made.get(f"{KUEUE}/namespaces/t/workloads/w")["metadata"], "deletion must not hang"


def test_jobs_that_wait_for_quota_start_and_finalizers_of_others_stay() -> None:
    made = _in_use()
    _with_quota(made)
    made.uninstall()
    assert made.get(f"{JOBS}/waits")["spec"]["suspend"] is False
    assert made.get(f"{JOBS}/without-workload")["spec"]["suspend"] is True, "its user suspended it"
    assert "finalizers" not in made.get(f"{KUEUE}/namespaces/t/workloads/w")["metadata"]
    assert made.get(f"{KUEUE}/resourceflavors/f")["metadata"]["finalizers"] == ["example.com/keep"]


def test_a_finalizer_is_removed_though_another_client_changes_the_object_at_the_same_time() -> None:
    made = _in_use()
    _with_quota(made)
    path = f"{KUEUE}/resourceflavors/f"

    def change_once(request: HTTPRequest) -> None:
        if request.method == "PATCH" and request.path == path and made.sent.count(f"PATCH {path}") == 0:
            made.server.patch(path, {"metadata": {"labels": {"new": "label"}}})

    made.before_request = change_once
    made.uninstall()
    metadata = made.get(path)["metadata"]
    assert (metadata["finalizers"], metadata["labels"]) == (["example.com/keep"], {"new": "label"})
    assert made.sent.count(f"PATCH {path}") == 2, "the first attempt had a conflict"


def test_an_object_that_cannot_be_written_does_not_keep_the_others_waiting() -> None:
    made = _in_use()
    _with_quota(made)
    spec = {"containers": CONTAINERS, "schedulingGates": [{"name": GATE}]}
    for name in ("a", "z"):
        made.create(PODS, {"metadata": {"name": name}, "spec": spec})
    held = _hold(made)
    made.protected = {f"{PODS}/gated", f"{JOBS}/waits", held}
    with pytest.raises(UninstallError) as failed:
        made.uninstall()
    assert str(failed.value).splitlines() == [
        f"pod/t/gated keeps gate {GATE}: cannot patch pods in namespace t: the server returned 403: denied by a policy",
        "not done: job.batch/t/waits started: 403: denied by a policy",
        "not done: workloads/t/w is active again: 403: denied by a policy",
        f"not done: workloads/t/w lost finalizer {IN_USE}: 403: denied by a policy",
    ]
    for name in ("a", "z"):
        assert "schedulingGates" not in made.get(f"{PODS}/{name}")["spec"]
    assert made.get(f"{KUEUE}/resourceflavors/f")["metadata"]["finalizers"] == ["example.com/keep"]
    assert made.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/headgate-component-quota"), "it is not over"
    made.protected = set()
    made.uninstall()
    assert _names(made.get(f"{PODS}/gated")["spec"]["schedulingGates"]) == ["example.com/other"]
    assert made.get(f"{JOBS}/waits")["spec"]["suspend"] is False
    assert made.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/headgate-component-quota") is None


def test_many_failures_are_counted() -> None:
    made = _in_use()
    spec = {"containers": CONTAINERS, "schedulingGates": [{"name": GATE}]}
    for number in range(25):
        made.create(PODS, {"metadata": {"name": f"p{number}"}, "spec": spec})
        made.protected.add(f"{PODS}/p{number}")
    with pytest.raises(UninstallError) as failed:
        made.uninstall()
    lines = str(failed.value).splitlines()
    assert (len(lines), lines[-1]) == (21, "and 5 more")


def test_queues_stay_unless_data_is_deleted() -> None:
    made = _in_use(gates_only(QueueOptions("team-a")))
    made.uninstall()
    assert made.get("/apis/scheduling.volcano.sh/v1beta1/queues/team-a")
    said = made.uninstall(deletes_data=True)
    name = "queues.scheduling.volcano.sh"
    assert f"customresourcedefinition.apiextensions.k8s.io/{name} deleted, with all its objects" in said
    assert made.get(f"{DEFINITIONS}/{name}") is None


def _keep_definition(made: Installation, name: str, reason: str) -> Callable[[], int]:
    """A finalizer keeps the definition, and its condition says what a server says that could not delete its objects.
    Returns what removes the finalizer."""
    path = f"{DEFINITIONS}/{name}"
    assert made.server.patch(path, {"metadata": {"finalizers": ["example.com/keep"]}}).status == 200

    def tell(request: HTTPRequest) -> None:
        found = made.get(path)
        if found is not None and "deletionTimestamp" in found["metadata"]:
            condition = {"type": "Terminating", "status": "True", "reason": reason, "message": "not initialized"}
            made.server.patch(f"{path}/status", {"status": {"conditions": [condition]}})

    made.before_request = tell
    return lambda: made.server.patch(path, {"metadata": {"finalizers": []}}).status


def test_a_definition_whose_objects_the_server_could_not_delete_is_tried_again() -> None:
    """kube-apiserver doubles the time between its attempts; a change of the definition makes it try at once."""
    made = _in_use()
    name = "workloadpriorityclasses.kueue.x-k8s.io"
    finish = _keep_definition(made, name, "InstanceDeletionFailed")
    tell = made.before_request

    def delete_when_changed(request: HTTPRequest) -> None:
        tell(request)
        found = made.get(f"{DEFINITIONS}/{name}")
        if found is not None and "headgate.dev/deletion-repeated" in (found["metadata"].get("annotations") or {}):
            finish()

    made.before_request = delete_when_changed
    lines = made.uninstall(deletes_data=True)
    repeated = f"customresourcedefinition.apiextensions.k8s.io/{name} is not deleted yet: not initialized; repeated"
    assert lines.count(repeated) == 1
    assert made.get(f"{DEFINITIONS}/{name}") is None


@pytest.mark.parametrize(
    ("reason", "said"),
    [("InstanceDeletionCheck", ": not initialized"), ("InstanceDeletionInProgress", "")],
)
def test_a_definition_that_is_never_deleted_is_an_error_with_the_reason_of_the_server(reason: str, said: str) -> None:
    made = _in_use()
    _keep_definition(made, "workloads.kueue.x-k8s.io", reason)
    expected = f"workloads.kueue.x-k8s.io is not deleted after 120 s{said}; run the command again"
    with pytest.raises(UninstallError, match=expected):
        made.uninstall(deletes_data=True)


def test_an_object_whose_finalizer_keeps_its_definition_is_named() -> None:
    made = _in_use()
    made.create(
        f"{KUEUE}/clusterqueues",
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": "kept", "finalizers": ["example.com/audit"]},
            "spec": {},
        },
    )
    expected = ": kept has the finalizer example.com/audit; remove the finalizers, and run the command again"
    with pytest.raises(UninstallError, match=expected):
        made.uninstall(deletes_data=True)


def test_every_object_that_an_installation_may_have_is_deleted() -> None:
    """Except the queue, which is the user's; the namespace is not a template."""
    rendered = [each["kind"] for each in install_objects(EVERYTHING, NAMESPACE)]
    assert len(rendered) == len(install_templates())
    assert "Queue" not in rendered
    made = _in_use(InstallOptions(metrics=MetricsOptions(secure=True)))
    made.uninstall(deletes_data=True)
    assert made.get(f"/api/v1/namespaces/{NAMESPACE}") is None
    roles = made.get("/apis/rbac.authorization.k8s.io/v1/clusterroles")["items"]
    assert [each["metadata"]["name"] for each in roles if "headgate" in each["metadata"]["name"]] == []


def test_kinds_are_read_before_their_definitions_are_deleted() -> None:
    """So that the storage of each is initialized when the server deletes its objects."""
    made = _in_use()
    order: list[str] = []
    made.before_request = lambda request: order.append(f"{request.method} {request.path}?{request.query}")
    made.uninstall(deletes_data=True)
    deleted = order.index(f"DELETE {DEFINITIONS}/workloadpriorityclasses.kueue.x-k8s.io?")
    assert f"GET {KUEUE}/workloadpriorityclasses?limit=1" in order[:deleted]


def test_definitions_of_other_programs_and_their_objects_stay_untouched() -> None:
    made = _in_use()
    _with_quota(made)
    path = f"{DEFINITIONS}/workloads.kueue.x-k8s.io"
    made.server.delete(f"{KUEUE}/resourceflavors/f")
    made.server.patch(f"{KUEUE}/resourceflavors/f", {"metadata": {"finalizers": None}})
    labels = {"app.kubernetes.io/managed-by": "Helm", "headgate.dev/definition": None}
    made.server.patch(path, {"metadata": {"labels": labels, "managedFields": [{}]}})
    said = made.uninstall(deletes_data=True)
    assert "jobs and pods in Kueue's queues kept: Kueue installed its definitions and manages them" in said
    assert made.get(path)
    assert made.get(f"{KUEUE}/namespaces/t/workloads/w")["metadata"]["finalizers"] == [IN_USE]


def test_a_definition_converts_no_more_and_does_not_serve_v1beta1() -> None:
    made = _in_use()
    path = f"{DEFINITIONS}/workloads.kueue.x-k8s.io"
    found = made.get(path)
    client = {"url": "https://127.0.0.1:1/convert"}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    found["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    found["spec"]["versions"] = [{**each, "served": True} for each in found["spec"]["versions"]]
    assert made.server.put(path, found).status == 200
    made.uninstall()
    spec = made.get(path)["spec"]
    assert spec["conversion"] == {"strategy": "None"}
    assert {each["name"]: each["served"] for each in spec["versions"]} == {"v1beta1": False, "v1beta2": True}


def test_a_dry_run_writes_nothing_and_says_the_same() -> None:
    made = _in_use()
    made.sent.clear()
    planned = made.uninstall(dry_run=True)
    assert made.sent == []
    done = made.uninstall()
    assert [each.removesuffix(" (dry run)").replace("loses", "lost") for each in planned] == done


def test_helm_deletes_the_objects_after_the_preparation() -> None:
    made = _in_use()
    said = made.uninstall(prepares=True)
    assert "deployment.apps/headgate scaled to 0" in said
    assert made.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/headgate")["spec"]["replicas"] == 0
    assert made.get(SECRET)["metadata"]["annotations"]["headgate.dev/webhooks"] == "removed"
    assert made.get(f"{CONFIGURATIONS}/mutatingwebhookconfigurations/headgate") is None


def test_an_installation_of_helm_is_refused_with_the_command_to_type() -> None:
    made = _in_use()
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    made.server.patch(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/headgate", {"metadata": {"labels": labels}})
    with pytest.raises(UninstallError, match="run: helm uninstall headgate --namespace headgate-system"):
        made.uninstall()


def test_a_leader_outside_the_installation_is_an_error() -> None:
    made = _in_use()
    made.server.patch(f"{LEASES}/headgate-quota", {"spec": {"holderIdentity": "laptop", "leaseDurationSeconds": 15}})

    def renew(request: HTTPRequest) -> None:
        if request.path == "/version":
            made.server.patch(f"{LEASES}/headgate-quota", {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}})

    made.before_request = renew
    with pytest.raises(UninstallError, match="is renewed by laptop: another Headgate process runs outside"):
        made.uninstall()


def test_a_leader_that_was_killed_does_not_stop_the_uninstallation() -> None:
    made = _in_use()
    body = {"holderIdentity": "killed", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    made.server.patch(f"{LEASES}/headgate-quota", {"spec": body})
    assert "lease.coordination.k8s.io/headgate-quota deleted" in made.uninstall()


def test_a_namespace_with_objects_of_others_stays() -> None:
    made = _in_use()
    made.create(f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": "mine"}})
    assert f"namespace/{NAMESPACE} kept: it contains configmap/mine" in made.uninstall()


def test_webhooks_that_an_older_replica_restored_are_deleted_again() -> None:
    made = _in_use()
    path = f"{CONFIGURATIONS}/mutatingwebhookconfigurations"

    def restore(request: HTTPRequest) -> None:
        if request.method == "DELETE" and "/deployments/" in request.path:
            labels = {"app.kubernetes.io/managed-by": "headgate"}
            made.create(path, {"metadata": {"name": "headgate", "labels": labels}})

    made.before_request = restore
    made.uninstall()
    assert made.get(f"{path}/headgate") is None


def _register(made: Installation, labels: Object, *names: str) -> None:
    """Both configurations with these entries, which are called at the Service of the installation."""
    client = {"service": {"name": "headgate", "namespace": NAMESPACE}, "caBundle": "Y2E="}
    constant = {"clientConfig": client, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    for kind in ("mutating", "validating"):
        path = f"{CONFIGURATIONS}/{kind}webhookconfigurations"
        made.server.delete(f"{path}/headgate")
        annotations = {"headgate.dev/settings-of-jobs": "a", "example.com/a": "b"}
        metadata = {"name": "headgate", "labels": labels, "annotations": annotations}
        made.create(path, {"metadata": metadata, "webhooks": [{"name": name, **constant} for name in names]})


OURS = ("pods.headgate.dev", "batch-v1-job.jobs.headgate.dev")


@pytest.mark.parametrize("labels", [{}, {"app.kubernetes.io/managed-by": "argocd"}])
@pytest.mark.parametrize("prepares", [False, True])
def test_the_entries_go_whatever_the_labels_of_their_configuration(labels: Object, prepares: bool) -> None:
    made = _in_use()
    _register(made, labels, *OURS)
    lines = made.uninstall(prepares=prepares)
    for kind in ("mutating", "validating"):
        found = made.get(f"{CONFIGURATIONS}/{kind}webhookconfigurations/headgate")
        assert not found.get("webhooks")
        assert found["metadata"]["annotations"] == {"example.com/a": "b"}
        kept = "has no entries of Headgate any more; kept: it has no label app.kubernetes.io/managed-by=headgate"
        assert f"{kind}webhookconfiguration.admissionregistration.k8s.io/headgate {kept}" in lines
    made.sent.clear()
    made.uninstall(prepares=prepares)
    assert made.sent == []


@pytest.mark.parametrize("labels", [{}, {"app.kubernetes.io/managed-by": "headgate"}])
def test_entries_of_other_programs_stay_with_their_configuration(labels: Object) -> None:
    made = _in_use()
    _register(made, labels, *OURS, "check.example.com")
    line = (
        "mutatingwebhookconfiguration.admissionregistration.k8s.io/headgate has no entries of Headgate any more; kept: "
        "it has entries of other programs: check.example.com"
    )
    assert f"{line} (dry run)" in made.uninstall(dry_run=True)
    assert line in made.uninstall()
    for kind in ("mutating", "validating"):
        found = made.get(f"{CONFIGURATIONS}/{kind}webhookconfigurations/headgate")
        assert _names(found["webhooks"]) == ["check.example.com"]


def test_a_configuration_to_which_a_user_adds_an_entry_meanwhile_is_not_deleted() -> None:
    made = _in_use()
    _register(made, {"app.kubernetes.io/managed-by": "headgate"}, *OURS)
    path = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/headgate"

    def add_entry(request: HTTPRequest) -> None:
        if request.method == "DELETE" and request.path == path:
            made.before_request = lambda request: None
            found = made.get(path)
            found["webhooks"].append({**found["webhooks"][0], "name": "check.example.com"})
            assert made.server.put(path, found).status == 200

    made.before_request = add_entry
    made.uninstall()
    assert _names(made.get(path)["webhooks"]) == ["check.example.com"]


def test_a_definition_without_labels_is_not_converted_by_a_service_that_is_gone() -> None:
    made = _in_use()
    path = f"{DEFINITIONS}/workloads.kueue.x-k8s.io"
    found = made.get(path)
    client = {"service": {"name": "headgate", "namespace": NAMESPACE, "path": "/kueue/convert"}}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    found["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    found["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "argocd"}
    assert made.server.put(path, found).status == 200
    made.uninstall()
    assert made.get(path)["spec"]["conversion"] == {"strategy": "None"}


def test_objects_of_a_user_with_the_same_names_stay() -> None:
    made = _in_use()
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/headgate-view"
    made.server.patch(role, {"metadata": {"labels": {"app.kubernetes.io/part-of": "mine"}}})
    made.uninstall()
    assert made.get(role)


@pytest.mark.parametrize("lifts_gates", [True, False])
def test_a_held_workload_is_active_again_whatever_program_reads_it_next(lifts_gates: bool) -> None:
    made = _in_use()
    _with_quota(made)
    path = _hold(made)
    made.uninstall(lifts_gates=lifts_gates)
    found = made.get(path)
    assert found["spec"]["active"] is True
    assert "annotations" not in found["metadata"]


RIGHTS = ("get", "list", "patch", "update", "delete")


@pytest.mark.parametrize(
    ("allowed", "plan", "missing"),
    [
        (("get", "list"), {}, "patch secrets in namespace headgate-system"),
        (("get", "list"), {}, "delete deployments.apps in namespace headgate-system"),
        (("get", "list", "patch", "update"), {}, "delete namespaces"),
        (("get", "list", "delete"), {}, "patch pods in namespace t"),
        (("get", "list", "delete"), {"lifts_gates": False}, "patch resourceflavors.kueue.x-k8s.io"),
        (
            ("get", "list", "patch"),
            {"deletes_data": True},
            "delete customresourcedefinitions.apiextensions.k8s.io",
        ),
    ],
)
def test_without_a_right_nothing_is_changed_and_all_missing_rights_are_listed(
    allowed: tuple[str, ...], plan: dict[str, Any], missing: str
) -> None:
    made = _in_use()
    _with_quota(made)
    made.allow(*allowed)
    made.sent.clear()
    made.token = STRANGER
    with pytest.raises(UninstallError) as refused:
        made.uninstall(NAMESPACE, **plan)
    lines = str(refused.value).splitlines()
    assert lines[0] == "nothing was changed, because you lack these rights:"
    assert f"  {missing}" in lines
    assert len(lines) == len(set(lines))
    assert made.sent == []
    with pytest.raises(UninstallError, match=missing):
        made.uninstall(NAMESPACE, dry_run=True, **plan)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_missing_right_to_read_is_listed_with_the_others(dry_run: bool) -> None:
    """Kinds that the server does not have need no right, though it refuses to read them."""
    made = Installation()
    made.install()
    writable = tuple(each for each in CORE if each not in ("secrets", "configmaps"))
    made.allow("get", "list", of={"": writable, **GROUPS})
    made.sent.clear()
    made.token = STRANGER
    with pytest.raises(UninstallError) as refused:
        made.uninstall(NAMESPACE, dry_run=dry_run)
    lines = str(refused.value).splitlines()
    assert lines[0] == "nothing was changed, because you lack these rights:"
    for right in ("get secrets", "list secrets", "get configmaps", "delete deployments.apps"):
        assert f"  {right} in namespace {NAMESPACE}" in lines
    assert "monitoring" not in str(refused.value)
    assert made.sent == []


def test_a_user_without_rights_to_kinds_that_are_not_served_may_uninstall() -> None:
    made = Installation()
    made.install(gates_only(QueueOptions()))
    made.allow(*RIGHTS, of={"": CORE, **GROUPS})
    made.token = STRANGER
    assert "deployment.apps/headgate deleted" in made.uninstall()


@pytest.mark.parametrize("plan", [{}, {"deletes_data": True}, {"prepares": True}])
def test_with_the_rights_to_its_own_steps_a_user_may_uninstall(plan: dict[str, Any]) -> None:
    made = _in_use()
    _with_quota(made)
    made.server.delete(f"{KUEUE}/resourceflavors/f")
    made.server.patch(f"{KUEUE}/resourceflavors/f", {"metadata": {"finalizers": None}})
    made.allow(*RIGHTS)
    made.token = STRANGER
    assert made.uninstall(NAMESPACE, **plan)


def test_rights_that_are_limited_to_the_names_of_the_objects_are_enough() -> None:
    made = Installation()
    made.install(gates_only(QueueOptions()))
    made.allow("get", "list")
    names = [each["metadata"]["name"] for each in install_objects(EVERYTHING, NAMESPACE)]
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": list(RIGHTS), "resourceNames": sorted(set(names))}
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/stranger"
    assert made.server.put(role, {**made.get(role), "rules": [*made.get(role)["rules"], rule]}).status == 200
    made.token = STRANGER
    assert "deployment.apps/headgate deleted" in made.uninstall()


def test_where_the_server_answers_no_reviews_the_steps_are_tried() -> None:
    made = Installation()
    made.install()
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/stranger"
    made.allow(*RIGHTS)
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": list(RIGHTS)}]
    assert made.server.put(role, {**made.get(role), "rules": rules}).status == 200
    made.token = STRANGER
    assert "deployment.apps/headgate deleted" in made.uninstall()


def test_a_finalizer_of_another_program_that_keeps_the_deployment_is_named() -> None:
    made = _in_use()
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/headgate"

    def add_finalizer(request: HTTPRequest) -> None:
        if request.method == "DELETE" and request.path == path:
            made.server.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}})

    made.before_request = add_finalizer
    made.deployment_finalizers = ["example.com/hold"]
    with pytest.raises(UninstallError, match=r"has the finalizer example\.com/hold of another program; remove it"):
        made.uninstall()
    assert made.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/headgate-view") is None, "the rest is done"
    made.server.patch(path, {"metadata": {"finalizers": None}})
    made.uninstall()
    assert made.get(f"/api/v1/namespaces/{NAMESPACE}") is None


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("serviceaccounts", {}),
        ("services", {"spec": {"ports": [{"port": 80}]}}),
        ("secrets", {"stringData": {"key": "value"}}),
    ],
)
def test_an_object_of_a_user_with_the_name_of_one_of_headgate_is_named_and_never_deleted(
    kind: str, body: Object
) -> None:
    made = Installation()
    name = "headgate-webhooks" if kind == "secrets" else "headgate"
    collection = f"/api/v1/namespaces/{NAMESPACE}/{kind}"
    made.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    theirs = made.create(collection, {"metadata": {"name": name}, **body})
    outcomes = {each.name: each for each in made.install()}
    refused = outcomes[f"{kind.removesuffix('s')}/{name}"]
    assert "does not have the label app.kubernetes.io/part-of=headgate" in refused.problem
    assert "--adopt" in refused.problem
    lines = made.uninstall()
    assert any(each.startswith(f"{kind.removesuffix('s')}/{name} kept: ") for each in lines)
    assert made.get(f"{collection}/{name}") == theirs


def test_a_deployment_of_a_user_with_the_name_of_that_of_headgate_stays() -> None:
    made = Installation()
    collection = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    made.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    labels = {"app": "mine"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS}}
    made.create(
        collection,
        {"metadata": {"name": "headgate"}, "spec": {"selector": {"matchLabels": labels}, "template": template}},
    )
    assert any(each.startswith("deployment.apps/headgate kept: ") for each in made.uninstall())
    assert made.get(f"{collection}/headgate")


def test_jobs_and_pods_of_queues_are_marked_before_they_start() -> None:
    """The job and pod controllers of a later installation read the mark (`tests/unit/jobs/test_release_mark.py`)."""
    made = _in_use()
    _with_quota(made)
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    metadata = {"labels": {"kueue.x-k8s.io/managed": "true"}, "finalizers": ["kueue.x-k8s.io/managed"]}
    for name in ("queued", "protected"):
        pod: Object = {"metadata": {"name": name, **metadata}, "spec": {"containers": CONTAINERS}}
        made.create(PODS, {**pod, "spec": {**pod["spec"], "schedulingGates": gates}})
    made.protected.add(f"{PODS}/protected")
    with pytest.raises(UninstallError, match="pod/t/protected marked"):
        made.uninstall()
    for path in (f"{PODS}/queued", f"{JOBS}/waits", f"{JOBS}/without-workload"):
        found = made.get(path)["metadata"]
        assert found["annotations"]["headgate.dev/released"] == found["uid"], path
    assert not made.get(f"{PODS}/queued")["spec"].get("schedulingGates")
    assert "finalizers" not in made.get(f"{PODS}/queued")["metadata"]
    assert made.get(f"{PODS}/protected")["spec"]["schedulingGates"] == gates, "it would start without the mark"
    assert "headgate.dev/released" not in (made.get(f"{PODS}/gated")["metadata"].get("annotations") or {})
