"""`headgate install` and `headgate uninstall` on a real control plane, under the service account of the installation.

The pods of the Deployment run as processes with its arguments and the tokens of its service account
(`harness/process_kubelet.py`). The audit log must not have a refused request, and after `headgate uninstall
--delete-data` the cluster has the same objects as before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.installed_cluster import InstalledCluster, difference
from harness.rights import EXAMPLES
from harness.server import JSON_TYPE
from harness.users import ALICE, TOKEN
from headgate.capacity.names import GATE, OPT_IN
from headgate.install.manifests import needed_definitions
from headgate.install.options import InstallOptions
from headgate.install.rights import USER_RULES, atoms
from headgate.kube import conditions

pytestmark = pytest.mark.real

Object = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "one-cpu"},
    "spec": {"capability": {"cpu": "1"}},
}


@pytest.fixture(scope="module")
def cluster(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledCluster]:
    made = InstalledCluster(tmp_path_factory.mktemp("installed"), kube_binaries)
    yield made
    made.stop()


@pytest.fixture
def before(cluster: InstalledCluster) -> Iterator[dict[str, Object]]:
    """The objects before a test, which the cluster has again when the test has uninstalled everything."""
    found = cluster.objects_at_rest()
    yield found
    assert cluster.refusals() == []


def test_an_installation_works_and_leaves_nothing_behind(cluster: InstalledCluster, before: dict[str, Object]) -> None:
    said = cluster.headgate("install", "--apply")
    assert "deployment.apps/headgate created" in said
    assert "failed" not in said
    cluster.kubelet.wait_until_ready(2)
    cluster.typed("rollout", "status", "deployment/headgate", "-n", "headgate-system", "--timeout=60s")
    again = cluster.headgate("install", "--apply")
    assert {line.split()[-1] for line in again.splitlines()} == {"unchanged"}, again
    assert "The installation is complete." in cluster.headgate("install", "--check")

    _apply_with_kubectl(cluster)
    _queue_gate(cluster)
    _quota(cluster)
    _people(cluster)

    planned = cluster.headgate("uninstall", "--dry-run")
    assert f"pod/default/second-pod loses gate {GATE} (dry run)" in planned
    assert cluster.get(f"{CONFIGURATIONS}/mutatingwebhookconfigurations/headgate")
    said = cluster.headgate("uninstall")
    _released(cluster, said)
    # The control plane deletes the EndpointSlices of the Service a moment later.
    cluster.until("nothing of the installation is left", lambda: not _left(before, cluster))
    kept = difference(before, cluster.objects())
    assert any("queues.scheduling.volcano.sh /one-cpu" in each for each in kept), kept
    assert cluster.headgate("uninstall") == "", "there is nothing left to do"

    cluster.typed("delete", "pod", "first-pod", "second-pod", "--grace-period=0", "--force")
    cluster.typed("delete", "-f", str(EXAMPLES / "quota-jobs.yaml"), "--timeout=30s")
    said = cluster.headgate("uninstall", "--delete-data")
    assert "workloads.kueue.x-k8s.io deleted, with all its objects" in said
    cluster.until_same(before)


def test_what_waits_over_an_uninstallation_is_told_the_truth_by_the_next_installation(
    cluster: InstalledCluster, before: dict[str, Object]
) -> None:
    cluster.headgate("install", "--apply")
    cluster.typed("rollout", "status", "deployment/headgate", "-n", "headgate-system", "--timeout=60s")
    _quota(cluster)
    for name in ("third", "fourth", "fifth"):
        _job_in_queue(cluster, name)
    cluster.until("all Jobs have Workloads", lambda: len(_workloads(cluster)) == 5)
    said = cluster.headgate("uninstall", "--keep-gates")
    assert "lost finalizer kueue.x-k8s.io/resource-in-use" in said
    assert not any(each["metadata"].get("finalizers") for each in _workloads(cluster))
    cluster.headgate("install", "--apply")
    cluster.typed("rollout", "status", "deployment/headgate", "-n", "headgate-system", "--timeout=60s")
    cluster.until(
        "the finalizers are restored", lambda: all(each["metadata"].get("finalizers") for each in _workloads(cluster))
    )
    cluster.until("one of them has the quota", lambda: "QuotaReserved" in _reasons(cluster))
    _job_in_queue(cluster, "sixth")
    queue = f"{KUEUE}/clusterqueues/one-cpu-of-quota"  # its status is written after the conditions of Workloads
    cluster.until("the others wait", lambda: (cluster.get(queue) or {})["status"].get("pendingWorkloads") == 5)
    assert not {"Misconfigured", "Suspended"} & set(_reasons(cluster)), _reasons(cluster)
    cluster.typed("delete", "job", "third", "fourth", "fifth", "sixth")
    cluster.typed("delete", "-f", str(EXAMPLES / "quota-jobs.yaml"), "--timeout=30s")
    cluster.headgate("uninstall", "--delete-data")
    cluster.until_same(before)


def _job_in_queue(cluster: InstalledCluster, name: str) -> None:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    metadata = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "team"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    cluster.typed("create", "-f", "-", stdin=json.dumps(job))


def _workloads(cluster: InstalledCluster) -> list[Object]:
    """Those that have not finished."""
    items: list[Object] = (cluster.get(f"{KUEUE}/workloads") or {})["items"]
    return [each for each in items if not conditions.is_true((each.get("status") or {}).get("conditions"), "Finished")]


def _reasons(cluster: InstalledCluster) -> list[str]:
    listed = ((each.get("status") or {}).get("conditions") for each in _workloads(cluster))
    return [str((conditions.find(each, "QuotaReserved") or {}).get("reason")) for each in listed]


def test_gates_only_holds_pods_of_a_queue_and_leaves_the_scheduler_alone(
    cluster: InstalledCluster, before: dict[str, Object]
) -> None:
    """The pods name no scheduler: kube-scheduler binds them when their gate is removed."""
    said = cluster.headgate("install", "--gates-only", "--queue", "team-a", "--capability", "cpu=1", "--apply")
    assert "queue.scheduling.volcano.sh/team-a created" in said
    cluster.typed("rollout", "status", "deployment/headgate", "-n", "headgate-system", "--timeout=60s")
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/headgate-gates"
    cluster.until("there is a leader", lambda: ((cluster.get(lease) or {}).get("spec") or {}).get("holderIdentity"))
    assert "component gates: the leader is" in cluster.headgate("install", "--gates-only", "--status")
    _refused_in_another_namespace(cluster)
    again = cluster.headgate("install", "--gates-only", "--queue", "team-a", "--apply")
    assert "queue.scheduling.volcano.sh/team-a unchanged" in again, "the limit stays"
    for name in ("first-pod", "second-pod"):
        pod = _pod(name)
        pod["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "team-a"}
        del pod["spec"]["schedulerName"]
        cluster.typed("create", "-f", "-", stdin=json.dumps(pod))
    cluster.until("first-pod is bound", lambda: (cluster.get(f"{PODS}/first-pod") or {})["spec"].get("nodeName"))
    assert (cluster.get(f"{PODS}/second-pod") or {})["spec"]["schedulingGates"] == [{"name": GATE}]
    cluster.typed("delete", "pod", "first-pod")
    cluster.until("second-pod is bound", lambda: (cluster.get(f"{PODS}/second-pod") or {})["spec"].get("nodeName"))
    said = cluster.headgate("install", "--apply")
    assert "deployment.apps/headgate stopped: replicas with the component gates" in said
    assert "component scheduler: the leader is" in cluster.headgate("install", "--status", "--wait", "60")
    cluster.headgate("uninstall", "--delete-data")
    cluster.typed("delete", "pod", "second-pod")
    cluster.until_same(before)


def _apply_with_kubectl(cluster: InstalledCluster) -> None:
    """The commands of docs/install.md and `--apply` are used in turns, and neither conflicts with the other. Printed
    definitions do conflict: a replica has written which versions are served."""
    path = f"{DEFINITIONS}/workloads.kueue.x-k8s.io"
    cluster.until("a replica serves all versions", lambda: _served(cluster.get(path)) == {True})
    served = cluster.get(path) or {}
    owners = {
        (each["manager"], each["operation"])
        for each in served["metadata"]["managedFields"]
        if "f:versions" in each["fieldsV1"].get("f:spec", {})
    }
    assert owners == {("headgate", "Apply"), ("headgate", "Update")}, "the command, and the replica"
    words = ("apply", "--server-side", "--dry-run=server", "-f", "-")
    conflicting = cluster.kubectl(*words, stdin=cluster.type("headgate install"))
    assert conflicting.exit != 0
    assert 'conflicts with "headgate":\n- .spec.versions' in conflicting.stderr

    account = "/api/v1/namespaces/headgate-system/serviceaccounts/headgate"
    role = {"serviceAccount": {"annotations": {"role": "other"}}}
    apply = "kubectl apply --server-side --field-manager=headgate-install -f -"
    assert {line.split()[-1] for line in cluster.type("headgate install-crds").splitlines()} == {"unchanged"}
    cluster.type(f"echo '{json.dumps(role)}' | headgate install --skip-crds --values /dev/stdin | {apply}")
    assert (cluster.get(account) or {})["metadata"]["annotations"] == {"role": "other"}
    assert "serviceaccount/headgate configured" in cluster.headgate("install", "--apply")
    assert "annotations" not in (cluster.get(account) or {})["metadata"]
    cluster.type(f"headgate install --skip-crds | {apply}")
    assert (cluster.get(path) or {})["metadata"]["generation"] == served["metadata"]["generation"]
    assert "The installation is complete." in cluster.headgate("install", "--check")


def _served(definition: Object | None) -> set[bool]:
    return {each["served"] for each in (definition or {})["spec"]["versions"]}


def _left(before: dict[str, Object], cluster: InstalledCluster) -> list[str]:
    """The objects of the installation that are still there, except its definitions."""
    kept = difference(before, cluster.objects())
    return [each for each in kept if "headgate" in each and "customresourcedefinition" not in each]


def test_objects_of_other_options_are_reported_and_pruned(
    cluster: InstalledCluster, before: dict[str, Object], tmp_path: Path
) -> None:
    """From all components with more objects to the scheduler alone: webhooks, roles and Services go, and the replicas
    are refused nothing meanwhile. Data, and objects of users with the same labels, stay."""
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"gatePolicies": {"enabled": True}, "metrics": {"secure": True}}))
    cluster.headgate("install", "--values", str(values), "--queue", "kept", "--apply")
    cluster.headgate("install", "--values", str(values), "--status", "--wait", "60")
    labels = (cluster.get(f"{ROLES}/headgate-component-quota") or {})["metadata"]["labels"]
    theirs = {"name": "headgate-of-a-user", "labels": labels}
    copied = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": theirs, "rules": []}
    cluster.typed("create", "-f", "-", stdin=json.dumps(copied))

    everything = cluster.objects()
    said = cluster.headgate("install", "--components", "scheduler", "--check", fails=True)
    assert "secret/headgate-webhooks: left over from other options" in said.splitlines(), said
    configuration = "mutatingwebhookconfiguration.admissionregistration.k8s.io/headgate"
    assert f"{configuration}: left over from other options" in said.splitlines(), said
    assert "queue.scheduling.volcano.sh/kept: left over from other options, and kept" in said
    assert "run: headgate install --components scheduler --kubeconfig" in said
    assert not [each for each in difference(everything, cluster.objects()) if "lease" not in each]

    lines = cluster.headgate("install", "--components", "scheduler", "--apply").splitlines()
    deployment = lines.index("deployment.apps/headgate configured")
    assert lines.index(f"{configuration} deleted") < deployment, lines
    assert deployment < lines.index("service/headgate pruned: it is of other options"), lines
    assert cluster.get(f"{CONFIGURATIONS}/mutatingwebhookconfigurations/headgate") is None
    definition = cluster.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io") or {}
    assert definition["spec"]["conversion"] == {"strategy": "None"}
    assert cluster.get("/apis/scheduling.volcano.sh/v1beta1/queues/kept")
    cluster.headgate("install", "--components", "scheduler", "--status", "--wait", "60")
    said = cluster.headgate("install", "--components", "scheduler", "--check")
    assert "The installation is complete." in said
    named = {"kueue.x-k8s.io/queue-name": "team"}
    pod = {**_pod("not-refused"), "metadata": {"name": "not-refused", "labels": named}}
    cluster.typed("create", "-f", "-", stdin=json.dumps(pod))
    cluster.typed("delete", "pod", "not-refused", "--grace-period=0", "--force")

    cluster.headgate("install", "--apply")
    said = cluster.headgate("install", "--status", "--wait", "60")
    assert "mutatingwebhookconfiguration/headgate: " in said, "the webhooks are back"
    lines = cluster.headgate("install", "--components", "scheduler,webhooks", "--apply").splitlines()
    assert f"{configuration} has no entries of jobs any more" in lines, lines
    entries = (cluster.get(f"{CONFIGURATIONS}/mutatingwebhookconfigurations/headgate") or {})["webhooks"]
    assert entries
    assert not [each["name"] for each in entries if each["name"].endswith(".jobs.headgate.dev")]
    cluster.headgate("uninstall", "--delete-data")
    assert cluster.typed("delete", "clusterrole", "headgate-of-a-user"), "the role of the user stayed"
    cluster.until_same(before)


def test_without_rights_nothing_is_installed_or_uninstalled(
    cluster: InstalledCluster, before: dict[str, Object], tmp_path: Path
) -> None:
    """A user who may read everything."""
    cluster.typed("create", "clusterrole", "reader", "--verb=get,list,watch", "--resource=*.*")
    cluster.typed("create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=alice")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.server.kubeconfig.read_text().replace(TOKEN, ALICE))
    said = cluster.headgate("install", "--gates-only", "--apply", fails=True, kubeconfig=kubeconfig)
    assert "nothing was written:" in said
    assert "  missing right: create deployments.apps in namespace headgate-system\n" in said
    assert cluster.get("/api/v1/namespaces/headgate-system") is None

    cluster.headgate("install", "--gates-only", "--apply")
    cluster.headgate("install", "--gates-only", "--status", "--wait", "60")
    installed = cluster.objects_at_rest()
    said = cluster.headgate("uninstall", fails=True, kubeconfig=kubeconfig)
    assert "nothing was changed, because you lack these rights:" in said
    for right in ("delete deployments.apps in namespace headgate-system", "delete namespaces"):
        assert f"  {right}\n" in said, said
    assert not [each for each in difference(installed, cluster.objects()) if "lease" not in each]
    cluster.headgate("uninstall", "--delete-data")
    cluster.typed("delete", "clusterrole,clusterrolebinding", "reader")
    cluster.until_same(before)


def _refused_in_another_namespace(cluster: InstalledCluster) -> None:
    """There is one installation per cluster; the commands for another namespace name it and write nothing."""
    before = cluster.objects_at_rest()
    for words in (("install", "--gates-only", "--apply"), ("uninstall",)):
        said = cluster.headgate(*words, "--namespace", "other", fails=True)
        assert "in namespace headgate-system" in said, said
        assert "headgate uninstall --namespace headgate-system" in said, said
    assert not [each for each in difference(before, cluster.objects()) if "leases" not in each]


def _queue_gate(cluster: InstalledCluster) -> None:
    """Two pods of one CPU in a queue for one: the first is bound, the second waits behind its gate."""
    cluster.typed("apply", "-f", "-", stdin=json.dumps(QUEUE))
    for name in ("first-pod", "second-pod"):
        cluster.typed("create", "-f", "-", stdin=json.dumps(_pod(name)))
    cluster.until("first-pod is bound", lambda: (cluster.get(f"{PODS}/first-pod") or {})["spec"].get("nodeName"))
    second = cluster.get(f"{PODS}/second-pod") or {}
    assert second["spec"]["schedulingGates"] == [{"name": GATE}]


def _quota(cluster: InstalledCluster) -> None:
    """Two Jobs in a queue with quota for one: one runs, the other one is suspended."""
    cluster.typed("apply", "-f", str(EXAMPLES / "quota-jobs.yaml"))

    def suspended() -> list[str]:
        items = (cluster.get(JOBS) or {})["items"]
        return [each["metadata"]["name"] for each in items if each["spec"].get("suspend")]

    cluster.until("one Job runs", lambda: len(suspended()) == 1)
    queue = f"{KUEUE}/clusterqueues/one-cpu-of-quota"
    cluster.until("the queue is in use", lambda: (cluster.get(queue) or {})["metadata"].get("finalizers"))


def _people(cluster: InstalledCluster) -> None:
    """Each role for people allows what its rules say and nothing else of the queue kinds, and its scenarios succeed."""
    for role in USER_RULES:
        name, flags = _binding(role)
        cluster.typed("create", *name, *flags, f"--user={role}")
    for role in USER_RULES:
        included = {"edit": ("view", "edit"), "admin": ("view", "edit", "admin")}.get(role, (role,))
        expected = {(group, kind, verb) for each in included for _, group, kind, _, verb in atoms(USER_RULES[each])}
        # A controller aggregates each role by itself, and the API server learns of bindings by a watch.
        cluster.until(f"{role} has the rights of its rules", partial(_has_rights, cluster, role, expected))
    gang = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"}}
    workload = (cluster.get(f"{KUEUE}/workloads") or {})["items"][0]["metadata"]["name"]
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "more"}}
    for role, words, stdin in (
        ("view", ("get", "workloads,localqueues,podgroups"), None),
        ("edit", ("create", "-f", "-"), json.dumps({**gang, "spec": {"minMember": 2}})),
        ("edit", ("delete", "podgroup", "gang"), None),
        ("admin", ("patch", "workload", workload, "--type=merge", "-p", '{"spec":{"active":true}}'), None),
        ("queue-viewer", ("get", "clusterqueues,resourceflavors,cohorts,queues"), None),
        ("queue-admin", ("create", "-f", "-"), json.dumps({**queue, "spec": {}})),
        ("queue-admin", ("delete", "clusterqueue", "more"), None),
    ):
        done = cluster.kubectl(*words, f"--as={role}", stdin=stdin)
        assert done.exit == 0, (role, words, done.stderr)
    for role in USER_RULES:
        cluster.typed("delete", *_binding(role)[0])


def _binding(role: str) -> tuple[tuple[str, str], tuple[str, ...]]:
    """view, edit and admin are those of Kubernetes, in a namespace; the others are bound everywhere."""
    if role.startswith("queue-"):
        return ("clusterrolebinding", f"people-{role}"), (f"--clusterrole=headgate-{role}",)
    return ("rolebinding", f"people-{role}"), (f"--clusterrole={role}",)


_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RIGHTS = [
    (definition["spec"]["group"], f"{definition['spec']['names']['plural']}{subresource}", verb)
    for definition in needed_definitions(InstallOptions())
    for subresource in ("", "/status", "/finalizers")
    for verb in _VERBS
]


def _has_rights(cluster: InstalledCluster, user: str, expected: set[tuple[str, str, str]]) -> bool:
    """Whether the user has these rights to the queue kinds, and no others."""
    return {right for right in RIGHTS if _may(cluster, user, *right)} == expected


def _may(cluster: InstalledCluster, user: str, group: str, resource: str, verb: str) -> bool:
    kind, _, subresource = resource.partition("/")
    what = {"namespace": "default", "group": group, "resource": kind, "subresource": subresource, "verb": verb}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": what},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = cluster.server.request("POST", path, JSON_TYPE, json.dumps(review).encode())
    allowed: bool = answer.json()["status"]["allowed"]
    return allowed


def _released(cluster: InstalledCluster, said: str) -> None:
    lines = said.splitlines()
    deleted = "mutatingwebhookconfiguration.admissionregistration.k8s.io/headgate deleted"
    assert lines.index(deleted) < lines.index("deployment.apps/headgate deleted"), said
    for kind in ("mutating", "validating"):
        assert cluster.get(f"{CONFIGURATIONS}/{kind}webhookconfigurations/headgate") is None
    assert "schedulingGates" not in (cluster.get(f"{PODS}/second-pod") or {})["spec"]
    assert not [each for each in (cluster.get(JOBS) or {})["items"] if each["spec"].get("suspend")]
    for kind in ("clusterqueues", "resourceflavors", "workloads"):
        items = (cluster.get(f"{KUEUE}/{kind}") or {})["items"]
        assert items, kind
        assert not [each for each in items if each["metadata"].get("finalizers")], kind
    definition = cluster.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io") or {}
    assert definition["spec"]["conversion"] == {"strategy": "None"}
    named = {"kueue.x-k8s.io/queue-name": "team"}
    pod = {**_pod("not-refused"), "metadata": {"name": "not-refused", "labels": named}}
    cluster.typed("create", "-f", "-", stdin=json.dumps(pod))
    cluster.typed("delete", "pod", "not-refused", "--grace-period=0", "--force")


def _pod(name: str) -> Object:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    annotations = {OPT_IN: "true", "scheduling.volcano.sh/queue-name": "one-cpu"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "headgate", "containers": [container]},
    }
