"""The life of a release of the Helm chart on a real control plane, under the tokens of its own service accounts.

It is installed, used as the README and the tour show, upgraded and rolled back while pods are created at 60 per second,
loses its leader, and is uninstalled. No pod is refused or comes without its gate, the audit log has no refused request,
and the cluster has the same objects as before. The pods of the release, its hooks and its test run as processes
(`harness/process_kubelet.py`), pods of users on hollow nodes.
"""

from __future__ import annotations

import contextlib
import http
import http.client
import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.helm import CHART, Helm
from harness.installed_cluster import InstalledCluster, difference
from harness.page_sessions import session, settled
from harness.pod_creation import RATE, PodCreator
from harness.process_kubelet import NODE
from harness.real_server import REPOSITORY
from harness.rights import used_rights
from headgate.capacity.names import GATE, OPT_IN
from headgate.install.checking import differences
from headgate.install.manifests import needed_definitions
from headgate.install.options import InstallOptions
from headgate.install.rights import STATUS_RULES, UNINSTALL_RULES, atoms
from headgate.jobs.framework.release_mark import is_released

pytestmark = pytest.mark.real

Object = dict[str, Any]
NAMESPACE = "headgate-system"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ACCOUNTS = {f"{NAMESPACE}/headgate-uninstall": UNINSTALL_RULES, f"{NAMESPACE}/headgate-test": STATUS_RULES}
"""Of the hook and of the test of the chart. `test_documented_rights.py` is about those of the components."""
_CHANGED = "another client changes the object at the same time: tests/unit/install/test_uninstalling.py"
_FOREIGN = "another program has entries in the configuration: tests/unit/install/test_uninstalling.py"
_GATES = "the component gates, which is not part of this release"
_POLICIES = "gate policies, which are off by default"
ELSEWHERE = {
    f"{NAMESPACE}/headgate-uninstall": {
        "get pods": _CHANGED,
        "get workloads": _CHANGED,
        "get clusterqueues": _CHANGED,
        "get resourceflavors": _CHANGED,
        "get admissionchecks": _CHANGED,
        "update mutatingwebhookconfigurations headgate": _FOREIGN,
        "update validatingwebhookconfigurations headgate": _FOREIGN,
        "delete leases headgate-gates": _GATES,
        "delete leases headgate-gate-policies": _POLICIES,
    },
    f"{NAMESPACE}/headgate-test": {
        "get leases headgate-gates": _GATES,
        "get leases headgate-gate-policies": _POLICIES,
        "get clusterroles headgate-component-gates": _GATES,
        "get clusterrolebindings headgate-component-gates": _GATES,
    },
}
"""Rights that this release does not use, and the scenario that does."""
VALUES = {
    "nodeSelector": {"kubernetes.io/hostname": NODE},
    "extraArgs": ["--scheduler-name=headgate", "--scheduler-name=volcano"],
}
"""The pods of the README name the scheduler volcano."""
QUEUE_GATE = (
    REPOSITORY / "README.md",
    "kubectl apply -f examples/volcano/three-pods.yaml",
    "kubectl delete pod pod-3",
)
QUOTA_AND_JOBS = (
    REPOSITORY / "docs" / "tour.md",
    "kubectl apply -f examples/quota-jobs.yaml",
    "kubectl delete job first second",
)


_DELETIONS = 10


class Release:
    """The release, and what the cluster had before it."""

    def __init__(self, cluster: InstalledCluster, helm: Helm, folder: Path) -> None:
        self.cluster, self._helm = cluster, helm
        self._values = folder / "values.yaml"
        self._values.write_text(yaml.safe_dump(VALUES))
        cluster.typed("create", "namespace", NAMESPACE)
        cluster.typed("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
        self.before = cluster.objects_at_rest()

    def helm(self, command: str, *words: str) -> str:
        waits = ("--wait", "--timeout", "200s") if command != "test" else ("--timeout", "200s")
        return self._helm.said(command, "headgate", *words, *waits)

    def install(self, command: str = "install", *words: str) -> str:
        return self.helm(command, str(CHART), "-f", str(self._values), *words)


@pytest.fixture(scope="module")
def release(kube_binaries: Path, helm_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """Installed and ready."""
    folder = tmp_path_factory.mktemp("life")
    cluster = InstalledCluster(folder / "cluster", kube_binaries, hollow_nodes=3)
    try:
        made = Release(cluster, Helm(helm_binary, folder, cluster.server.kubeconfig), folder)
        made.install()
        yield made
    finally:
        cluster.stop()


@pytest.fixture
def load(release: Release, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for the pods of a test. It is deleted while the next test runs."""
    name = re.sub(r"[^a-z]+", "-", request.node.name)[-40:].strip("-")
    release.cluster.typed("create", "namespace", name)
    yield name
    _delete_pods(release.cluster, name)
    release.cluster.typed("delete", "namespace", name, "--wait=false")


def _delete_pods(cluster: InstalledCluster, namespace: str) -> None:
    """A busy kube-apiserver deletes some of the pods in the time of one request. Then it answers that its time is over,
    or closes the connection."""
    path, status = f"{_pods(namespace)}?gracePeriodSeconds=0&timeout=30s", http.HTTPStatus.GATEWAY_TIMEOUT
    for _ in range(_DELETIONS):
        with contextlib.suppress(http.client.RemoteDisconnected):
            status = http.HTTPStatus(cluster.server.request("DELETE", path).status)
        if status != http.HTTPStatus.GATEWAY_TIMEOUT:
            break
    assert status == http.HTTPStatus.OK


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def test_the_session_of_the_queue_gate_prints_what_the_readme_shows(release: Release) -> None:
    for step in session(*QUEUE_GATE):
        printed = release.cluster.type(step.command).splitlines()
        assert [settled(line) for line in printed] == [settled(line) for line in step.shown], step.command


def test_the_session_of_quota_and_jobs_prints_what_the_tour_shows(release: Release) -> None:
    """Creation times are whole seconds, and of two Jobs with equal times either may be the first, as in Kueue."""
    apply, *steps = session(*QUOTA_AND_JOBS)
    assert release.cluster.type(apply.command).splitlines() == apply.shown
    names, cluster = ("first", "second"), release.cluster
    winner = cluster.until("a Job runs", lambda: next((each for each in names if _runs(cluster, each)), None))
    for step in steps:
        printed = release.cluster.type(_renamed(step.command, winner)).splitlines()
        shown = [_renamed(line, winner) for line in step.shown]
        assert sorted(map(settled, printed)) == sorted(map(settled, shown)), step.command


def _runs(cluster: InstalledCluster, name: str) -> bool:
    job = cluster.get(f"/apis/batch/v1/namespaces/default/jobs/{name}") or {}
    return not job["spec"].get("suspend")


def _renamed(text: str, winner: str) -> str:
    """The text of the page, if the Job that it calls `first` is `second` here."""
    other = {"first": "second", "second": "first"}
    return text if winner == "first" else re.sub(r"\b(first|second)\b", lambda found: other[found[1]], text)


def test_no_pod_is_refused_or_ungated_during_an_upgrade(release: Release, load: str) -> None:
    _replace_under_load(release, load, lambda: release.install("upgrade", "--set", "logLevel=debug"))
    definition = release.cluster.get(f"{DEFINITIONS}/workloads.kueue.x-k8s.io") or {}
    assert definition["spec"]["conversion"]["strategy"] == "Webhook", "it is not reset"
    assert {each["name"]: each["served"] for each in definition["spec"]["versions"]} == {
        "v1beta1": True,
        "v1beta2": True,
    }


def test_no_pod_is_refused_or_ungated_during_a_roll_back(release: Release, load: str) -> None:
    before = _generations(release)
    _replace_under_load(release, load, lambda: release.helm("rollback", "1"))
    assert _generations(release) == before, "the definitions are written once: by the first replica"
    deployment = release.cluster.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/headgate")
    assert "--log-level=info" in str(deployment)


def _generations(release: Release) -> dict[str, int]:
    definitions = (release.cluster.get(DEFINITIONS) or {})["items"]
    return {each["metadata"]["name"]: each["metadata"]["generation"] for each in definitions}


def _replace_under_load(release: Release, load: str, replace: Callable[[], object]) -> None:
    old = _running(release)
    # Each pod in a queue of Kueue has a Workload and a finalizer, whose removal takes longer than the test.
    with PodCreator(release.cluster.server, load, kueue_every=10) as creator:
        replace()
        release.cluster.until("every replica is replaced", lambda: not old & _running(release))
    assert creator.outcomes.keys() == {"gated"}, creator.outcomes
    assert creator.outcomes["gated"] > 5 * RATE, "pods were created all the time"


def _running(release: Release) -> set[str]:
    return {each.name for each in release.cluster.kubelet.processes() if each.process.running()}


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, id="killed", marks=pytest.mark.full),
        pytest.param(signal.SIGSTOP, id="stopped"),
    ],
)
def test_pods_that_are_created_while_the_leader_is_gone_are_neither_refused_nor_lost(
    number: signal.Signals, release: Release, load: str
) -> None:
    cluster = release.cluster
    cluster.typed("apply", "-f", "-", stdin=json.dumps(_queue("load", "64")))
    leader = cluster.until("there is a leader", cluster.kubelet.leader)
    leader.process.signal(number)
    try:
        creator = PodCreator(cluster.server, load, only_queue="load", limit=100)
        creator.join()
        assert creator.outcomes.total() == 100
        assert not [each for each in creator.outcomes if each.startswith("refused")], creator.outcomes

        def bound() -> int:
            return sum(bool(each["spec"].get("nodeName")) for each in (cluster.get(_pods(load)) or {})["items"])

        cluster.until("all pods are bound", lambda: bound() == 100)
    finally:
        if number == signal.SIGSTOP:
            leader.process.signal(signal.SIGCONT)


def test_an_uninstallation_releases_pods_and_leaves_the_objects_that_were_there_before(release: Release) -> None:
    cluster = release.cluster
    assert "TEST SUITE:     headgate-test" in release.helm("test")
    assert "Helm manages this installation" in cluster.headgate("install", "--apply", fails=True)
    assert "helm uninstall headgate" in cluster.headgate("uninstall", fails=True)
    _use(cluster)
    cluster.typed("apply", "-f", "-", stdin=json.dumps(_queue("small", "1")))
    cluster.typed("create", "-f", "-", stdin=json.dumps(_waiting_pod()))
    waiting = "/api/v1/namespaces/default/pods/waiting"
    assert (cluster.get(waiting) or {})["spec"]["schedulingGates"] == [{"name": GATE}]
    release.helm("uninstall")
    assert "schedulingGates" not in (cluster.get(waiting) or {})["spec"]
    cluster.typed("delete", "pod", "waiting", "--grace-period=0", "--force")
    assert _released_jobs(cluster) == ["first", "second"]

    def kept() -> list[str]:
        left = [each for each in difference(release.before, cluster.objects()) if "apiservices" not in each]
        return [each for each in left if not each.startswith("+ customresourcedefinitions")]

    # The control plane deletes the EndpointSlices of the Service a moment later.
    cluster.until("nothing of the release is left", lambda: not [each for each in kept() if "headgate" in each])
    assert "+ queues.scheduling.volcano.sh /small" in kept(), "the queues of users stay"

    release.install()  # beside the definitions that stayed
    cluster.until("the admitted Job is managed again", lambda: len(_released_jobs(cluster)) == 1)
    assert all(_runs(cluster, each) for each in ("first", "second")), "a Job that was released is not stopped"
    cluster.typed("delete", "job", "first", "second")
    release.helm("uninstall")
    for account, rules in ACCOUNTS.items():
        granted = {(group, resource, name, verb) for _, group, resource, name, verb in atoms(rules)}
        unused = granted - used_rights(cluster.audit_events(account))
        named = {" ".join(filter(None, (verb, resource, name))) for _, resource, name, verb in unused}
        elsewhere = ELSEWHERE.get(account, {})
        may_be_used = {right for right, reason in elsewhere.items() if reason == _CHANGED}
        assert named | may_be_used == set(elsewhere), account
    cluster.headgate("uninstall", "--delete-data")
    cluster.until_same(release.before)
    assert cluster.refusals() == []


def test_definitions_of_volcano_and_kueue_are_neither_adopted_nor_changed_nor_deleted(
    release: Release,
) -> None:
    """It needs the uninstallation of the test before."""
    cluster = release.cluster
    theirs = [_foreign(each) for each in needed_definitions(InstallOptions())]
    for each in theirs:
        cluster.typed("create", "-f", "-", stdin=json.dumps(each))
    before = {each["metadata"]["name"]: each for each in (cluster.get(DEFINITIONS) or {})["items"]}
    said = release.install()
    assert "Another program installed these definitions" in said
    release.helm("uninstall")
    said = cluster.headgate("install", "--apply", "--components", "quota,jobs")
    assert "customresourcedefinition.apiextensions.k8s.io/workloads.kueue.x-k8s.io left as it is" in said
    said = cluster.headgate("uninstall", "--delete-data")
    assert "workloads.kueue.x-k8s.io kept: another program installed it" in said
    after = {each["metadata"]["name"]: each for each in (cluster.get(DEFINITIONS) or {})["items"]}
    for name, each in before.items():
        assert list(differences({**each, "status": 0}, {**after[name], "status": 0})) == [], name


def _released_jobs(cluster: InstalledCluster) -> list[str]:
    """The Jobs with the mark of an uninstallation."""
    found = (cluster.get("/apis/batch/v1/namespaces/default/jobs") or {})["items"]
    return sorted(each["metadata"]["name"] for each in found if is_released(each))


def _use(cluster: InstalledCluster) -> None:
    """Objects of each kind that an uninstallation releases: a Job that waits, queues, flavors and checks in use."""
    jobs = (REPOSITORY / "examples" / "quota-jobs.yaml").read_text()
    cluster.typed("apply", "-f", "-", stdin=jobs.replace("headgate.dev/run-for: 4s", "headgate.dev/run-for: never"))
    cluster.typed("apply", "-f", "-", stdin=yaml.safe_dump_all(_CHECKED))
    check = "/apis/kueue.x-k8s.io/v1beta2/admissionchecks/licences"
    cluster.until(
        "one Job runs, the other waits", lambda: sum(_runs(cluster, each) for each in ("first", "second")) == 1
    )
    cluster.until("the check is in use", lambda: (cluster.get(check) or {})["metadata"].get("finalizers"))


_CHECKED: tuple[Object, ...] = (
    {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": "licences"},
        "spec": {"controllerName": "example.com/licences"},
    },
    {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "licensed"},
        "spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "licences"}]}},
    },
)


def _queue(name: str, cpu: str) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"capability": {"cpu": cpu}},
    }


def _waiting_pod() -> Object:
    annotations = {OPT_IN: "true", "scheduling.volcano.sh/queue-name": "small"}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "2"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "waiting", "annotations": annotations},
        "spec": {"schedulerName": "headgate", "containers": [container]},
    }


def _foreign(definition: Object) -> Object:
    meta = {"name": definition["metadata"]["name"], "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    return {**definition, "metadata": meta}
