"""Failure paths of components, as scenarios for the rights that only these use.

Each scenario runs beside a component under its own service account, behind a proxy that can lose responses and hold
watches back (`faulty_proxy.py`). `rights.py` has the scenarios in which nothing fails.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from clusters import a_pod
from harness.faulty_proxy import FaultyProxy
from harness.processes import Process
from harness.rights import EXAMPLES, AuditedServer
from harness.scheduler_process import send, wait_for
from harness.webhooks import adds_gates
from headgate.capacity.names import GATE, OPT_IN
from rights_cases import GATES_ONLY, QUOTA, SCHEDULER, WEBHOOKS

Object = dict[str, Any]

NAMESPACE = "failing"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_QUEUES = "/apis/scheduling.volcano.sh/v1beta1"
_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
_POD_GROUP_DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.volcano.sh"
_SECRET = "/api/v1/namespaces/headgate-system/secrets/headgate-webhooks"
_MERGE = "application/merge-patch+json"
_LABELS = {"app": "x"}

Scenario = Callable[[AuditedServer, Process, FaultyProxy], None]


class FailurePath(NamedTuple):
    """`words`: what is typed after `headgate`; `{port}` is a free port for webhooks."""

    account: str
    words: str
    scenario: Scenario


def configured(server: AuditedServer, proxy: FaultyProxy, account: str, folder: Path) -> Path:
    """A kubeconfig for a service account whose requests go through the proxy."""
    direct = yaml.safe_load(server.configured(account, folder).read_text())
    config = {**yaml.safe_load(proxy.kubeconfig.read_text()), "users": direct["users"]}
    path = folder / "through-the-proxy.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


# -- scheduler and gates -----------------------------------------------------------------------------------------------


def _binding_is_lost(server: AuditedServer, process: Process, proxy: FaultyProxy) -> None:
    proxy.lose("POST", "/binding")
    _pod(server, "lost", {})
    wait_for(lambda: _read(server, "lost")["spec"].get("nodeName"), process)
    wait_for(lambda: "get" in _verbs(server, SCHEDULER, "pods"), process)


def _volume_is_provisioned(server: AuditedServer, process: Process, proxy: FaultyProxy) -> None:
    body = {"metadata": {"name": "provisioned"}, "provisioner": "example.com/disks"}
    send(
        server,
        "POST",
        "/apis/storage.k8s.io/v1/storageclasses",
        {**body, "volumeBindingMode": "WaitForFirstConsumer"},
    )
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
    send(server, "POST", claims, {"metadata": {"name": "fresh"}, "spec": {**spec, "storageClassName": "provisioned"}})
    _pod(server, "with-fresh-volume", {}, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "fresh"}}])
    selected = "volume.kubernetes.io/selected-node"
    wait_for(lambda: (send(server, "GET", f"{claims}/fresh")["metadata"].get("annotations") or {}).get(selected))


def _definition_has_no_status(
    server: AuditedServer, process: Process, proxy: FaultyProxy, scheduler: str = "headgate"
) -> None:
    """As Volcano's own definition of PodGroup."""
    before = send(server, "GET", _POD_GROUP_DEFINITION)["spec"]["versions"]
    without = [{**each, "subresources": {}} for each in before]
    send(server, "PATCH", _POD_GROUP_DEFINITION, {"spec": {"versions": without}}, _MERGE)
    groups = f"{_QUEUES}/namespaces/{NAMESPACE}/podgroups"
    wait_for(lambda: "podgroups/status" not in {each["name"] for each in send(server, "GET", _QUEUES)["resources"]})
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "without-status"}}
    send(server, "POST", groups, {**group, "spec": {"minMember": 1, "queue": "team"}})
    notes = {"scheduling.k8s.io/group-name": "without-status", OPT_IN: "true"}
    gates = [{"name": GATE}]
    _pod(server, "grouped", {"cpu": "100m"}, {"annotations": notes}, schedulingGates=gates, schedulerName=scheduler)
    wait_for(lambda: send(server, "GET", f"{groups}/without-status").get("status"), process)
    server.typed("delete", "pod", "-n", NAMESPACE, "grouped", "--grace-period=0", "--force")
    server.typed("delete", "podgroup", "-n", NAMESPACE, "without-status")
    send(server, "PATCH", _POD_GROUP_DEFINITION, {"spec": {"versions": before}}, _MERGE)


# -- webhooks ----------------------------------------------------------------------------------------------------------


def _objects_are_new(server: AuditedServer, process: Process, proxy: FaultyProxy) -> None:
    """Pods that name objects which no watch has shown yet."""
    wait_for(lambda: "webhooks: ready" in process.log.read_text(), process)
    wait_for(lambda: adds_gates(server), process)
    proxy.hold_watches()
    try:
        server.typed("create", "namespace", "brand-new")
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "new"}}
        send(server, "POST", f"{_QUEUES}/namespaces/brand-new/podgroups", {**group, "spec": {"queue": "team"}})
        member = {"annotations": {"scheduling.k8s.io/group-name": "new"}}  # does its queue opt in?
        _pod(server, "member", {}, member, namespace="brand-new")
        for owner in (_owner(server, "deployments"), _owner(server, "statefulsets")):
            meta = {"labels": {**_LABELS, "kueue.x-k8s.io/queue-name": "team"}, "ownerReferences": [owner]}
            _pod(server, f"of-{owner['kind'].lower()}", {}, meta, namespace="brand-new")
    finally:
        proxy.resume_watches()


def _owner(server: AuditedServer, plural: str) -> Object:
    """The controller of a pod: a StatefulSet, or the ReplicaSet of a Deployment."""
    inside = "/apis/apps/v1/namespaces/brand-new"
    template = {"metadata": {"labels": _LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": _LABELS}, "template": template, "serviceName": "x"}
    if plural == "deployments":
        del spec["serviceName"]
    body: Object = {"metadata": {"name": "new", "labels": {"kueue.x-k8s.io/queue-name": "team"}}, "spec": spec}
    made = send(server, "POST", f"{inside}/{plural}", body)
    kind = {"deployments": "Deployment", "statefulsets": "StatefulSet"}[plural]
    owner = _reference("apps/v1", kind, "new", made["metadata"]["uid"])
    if plural == "statefulsets":
        return owner
    body = {"metadata": {"name": "new", "ownerReferences": [owner]}, "spec": spec}
    made = send(server, "POST", f"{inside}/replicasets", body)
    return _reference("apps/v1", "ReplicaSet", "new", made["metadata"]["uid"])


def _configuration_is_changed(server: AuditedServer, process: Process, proxy: FaultyProxy) -> None:
    wait_for(lambda: "webhooks: ready" in process.log.read_text(), process)
    for kind in ("mutating", "validating"):
        path = f"{_CONFIGURATIONS}/{kind}webhookconfigurations/headgate"
        before = send(server, "GET", path)["webhooks"]
        send(server, "PATCH", path, {"webhooks": [{**each, "timeoutSeconds": 29} for each in before]}, _MERGE)
        wait_for(partial(_has_webhooks, server, path, before), process)


def _has_webhooks(server: AuditedServer, path: str, expected: list[Object]) -> bool:
    return bool(send(server, "GET", path)["webhooks"] == expected)


def _certificate_is_renewed(server: AuditedServer, process: Process, proxy: FaultyProxy) -> None:
    wait_for(lambda: "webhooks: ready" in process.log.read_text(), process)
    spoiled = base64.b64encode(b"no certificate").decode()
    send(server, "PATCH", _SECRET, {"data": {"tls.crt": spoiled}}, _MERGE)
    wait_for(lambda: send(server, "GET", _SECRET)["data"]["tls.crt"] != spoiled, process)


# -- quota and jobs ----------------------------------------------------------------------------------------------------


def _check_is_used(server: AuditedServer, process: Process, proxy: FaultyProxy) -> None:
    kinds = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    check = {"metadata": {"name": "check"}, "spec": {"controllerName": "example.com/checks"}}
    send(server, "POST", f"{_KUEUE}/admissionchecks", {**kinds, "kind": "AdmissionCheck", **check})
    spec = {"admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}}
    queue = {"metadata": {"name": "with-check"}, "spec": spec}
    send(server, "POST", f"{_KUEUE}/clusterqueues", {**kinds, "kind": "ClusterQueue", **queue})
    wait_for(lambda: send(server, "GET", f"{_KUEUE}/admissionchecks/check")["metadata"].get("finalizers"), process)


def _jobs_are_stopped_twice(server: AuditedServer, process: Process, proxy: FaultyProxy) -> None:
    server.typed("apply", "-f", str(EXAMPLES / "quota-jobs.yaml"))
    queue, jobs = f"{_KUEUE}/clusterqueues/one-cpu-of-quota", "/apis/batch/v1/namespaces/default/jobs"

    def running() -> set[str]:
        items = send(server, "GET", jobs)["items"]
        names = {each["metadata"]["name"] for each in items if not each["spec"].get("suspend")}
        return names & {"first", "second"}

    for _ in range(3):
        wait_for(running, process)
        send(server, "PATCH", queue, {"spec": {"stopPolicy": "HoldAndDrain"}}, _MERGE)
        wait_for(lambda: not running(), process)
        send(server, "PATCH", queue, {"spec": {"stopPolicy": "None"}}, _MERGE)
    wait_for(lambda: "patch" in _verbs(server, QUOTA, "events"), process)
    server.typed("delete", "job", "first", "second", "--cascade=background")


def _job_leaves_its_queue(server: AuditedServer, process: Process, proxy: FaultyProxy) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    labels = {"kueue.x-k8s.io/queue-name": "nowhere"}
    body = {"metadata": {"name": "leaves", "labels": labels}, "spec": {"suspend": True, "template": template}}
    send(server, "POST", path, body)
    wait_for(lambda: _workloads_of(server, "leaves"), process)
    send(server, "PATCH", f"{path}/leaves", {"metadata": {"labels": None}}, _MERGE)
    wait_for(lambda: not _workloads_of(server, "leaves"), process)


def _owner_is_gone(server: AuditedServer, process: Process, proxy: FaultyProxy) -> None:
    """A Workload whose pod no longer exists: without a garbage collector the component has to ask."""
    spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    sets = [{"name": "main", "count": 1, "template": {"spec": spec}}]
    owner = _reference("v1", "Pod", "gone", "00000000-0000-0000-0000-000000000000")
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "of-a-pod", "ownerReferences": [owner], "finalizers": ["kueue.x-k8s.io/resource-in-use"]},
        "spec": {"queueName": "nowhere", "podSets": sets},
    }
    send(server, "POST", f"{_KUEUE}/namespaces/default/workloads", body)
    wait_for(lambda: "get" in _verbs(server, QUOTA, "pods"), process)


_WEBHOOKS = "run --components {components} --webhook-url https://127.0.0.1:{{port}} --shutdown-delay 0"
FAILURE_PATHS = {
    "the response to a binding is lost": FailurePath(SCHEDULER, "run", _binding_is_lost),
    "a volume is provisioned for a pod": FailurePath(SCHEDULER, "run", _volume_is_provisioned),
    "the scheduler finds a PodGroup without status subresource": FailurePath(
        SCHEDULER, "run", _definition_has_no_status
    ),
    "the gates find a PodGroup without status subresource": FailurePath(
        GATES_ONLY,
        _WEBHOOKS.format(components="gates,webhooks"),
        partial(_definition_has_no_status, scheduler="default-scheduler"),
    ),
    "a review is about new objects": FailurePath(
        WEBHOOKS, _WEBHOOKS.format(components="webhooks,jobs"), _objects_are_new
    ),
    "another client changes the webhook configurations": FailurePath(
        WEBHOOKS, _WEBHOOKS.format(components="webhooks"), _configuration_is_changed
    ),
    "a certificate is renewed": FailurePath(WEBHOOKS, _WEBHOOKS.format(components="webhooks"), _certificate_is_renewed),
    "a queue has an AdmissionCheck": FailurePath(QUOTA, "run --components quota", _check_is_used),
    "jobs are stopped again": FailurePath(QUOTA, "run --components quota,jobs", _jobs_are_stopped_twice),
    "a job leaves its queue": FailurePath(QUOTA, "run --components quota,jobs", _job_leaves_its_queue),
    "the pod of a Workload is gone": FailurePath(QUOTA, "run --components quota,jobs", _owner_is_gone),
}


# -- objects -----------------------------------------------------------------------------------------------------------


def _pod(
    server: AuditedServer,
    name: str,
    requests: Object,
    metadata: Object | None = None,
    *,
    namespace: str = NAMESPACE,
    **spec: Any,
) -> None:
    pod = a_pod(name, requests, **{"schedulerName": "headgate", **spec})
    pod["metadata"] = {"name": name, **(metadata or {})}
    send(server, "POST", f"/api/v1/namespaces/{namespace}/pods", pod)


def _read(server: AuditedServer, name: str) -> Object:
    return send(server, "GET", f"{_PODS}/{name}")


def _reference(api_version: str, kind: str, name: str, uid: str) -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _workloads_of(server: AuditedServer, job: str) -> list[str]:
    items = send(server, "GET", f"{_KUEUE}/namespaces/default/workloads")["items"]
    return [each["metadata"]["name"] for each in items if each["metadata"]["name"].startswith(f"job-{job}-")]


def _verbs(server: AuditedServer, account: str, resource: str) -> set[str]:
    return {verb for _, asked, _, verb in server.used_rights(account) if asked == resource}
