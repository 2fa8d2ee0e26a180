"""A real API server that records every refused request, and actions of components whose rights a test checks."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from clusters import a_node, a_pod
from harness.embedded_server import HEADGATE
from harness.processes import Process
from harness.real_server import REPOSITORY, RealServer
from harness.scheduler_process import scheduled_reason, send, wait_for
from harness.server import JSON_TYPE, Server
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME
from headgate.kube.conditions import is_true
from headgate.kube.timestamps import format_time

Object = dict[str, Any]
EXAMPLES = REPOSITORY / "examples"
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
_PODS = "/api/v1/namespaces/default/pods"
_QUEUES = "/apis/scheduling.volcano.sh/v1beta1"
_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_MERGE = "application/merge-patch+json"
_SELECTED_NAME = re.compile(r"fieldSelector=metadata\.name(?:=|%3D)([\w.-]+)")


class AuditedServer(RealServer):
    """All rights of `examples/` are granted to their service accounts, and to no other user."""

    def __init__(self, folder: Path, programs: Path) -> None:
        folder.mkdir(parents=True)
        policy, self._audit = folder / "audit-policy.yaml", folder / "audit.log"
        policy.write_text(yaml.safe_dump(POLICY))
        flags = (
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self._audit}",
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        )
        super().__init__(folder / "real", programs, flags=flags)
        files = sorted(EXAMPLES.glob("*-rights.yaml"))
        for each in sorted(files, key=lambda path: ("webhook" not in path.name, "combined" in path.name)):
            self.typed("apply", "-f", str(each))
        # There is no network to Services here: without one webhooks are passed over at once, not after a while.
        self.typed("delete", "service", "-n", "headgate-system", "headgate")
        until_rights_hold(self)

    def typed(self, *words: str, stdin: str | None = None) -> str:
        """What kubectl says to an administrator."""
        done = self.kubectl(words, stdin)
        assert done.exit == 0, (words, done.stderr)
        return done.stdout

    def configured(self, account: str, folder: Path) -> Path:
        """A kubeconfig for a service account."""
        namespace, name = account.split("/")
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": self.typed("create", "token", "-n", namespace, name).strip()}
        path = folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def used_rights(self, account: str) -> set[tuple[str, str, str, str]]:
        """What a service account has asked for so far: group, resource, name, verb."""
        return used_rights(self._events(account))

    def requests(self, account: str) -> Counter[str]:
        """How often a service account has sent each verb for each resource so far."""
        about = ((each["verb"], each.get("objectRef") or {}) for each in self._events(account))
        return Counter(
            f"{verb} {'/'.join(filter(None, (what.get('resource', ''), what.get('subresource'))))}"
            for verb, what in about
        )

    def _events(self, account: str) -> list[Object]:
        return audit_events(self._audit, account)

    def refusals(self, account: str) -> list[str]:
        """What was refused to a service account so far: verb, path."""
        return [
            f"{each['verb']} {each['requestURI']}"
            for each in self._events(account)
            # Not every 403 is about rights: in a terminating namespace no user may create objects.
            if (each.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid"
        ]


def until_rights_hold(server: Server) -> None:
    """Until the authorizer has seen all roles and bindings that there are: it learns of each kind by its own watch, in
    the order of creation, and so of these last."""
    for kind, group in (("ClusterRole", ""), ("Role", "/namespaces/default")):
        rbac, plural = f"/apis/rbac.authorization.k8s.io/v1{group}", f"{kind.lower()}s"
        rules = [{"apiGroups": [""], "resources": [f"sign-of-{plural}"], "verbs": ["get"]}]
        send(server, "POST", f"{rbac}/{plural}", {"metadata": {"name": "sign"}, "rules": rules})
        to = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "sign"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "sign"}
        body = {"metadata": {"name": "sign"}, "roleRef": to, "subjects": [subject]}
        send(server, "POST", f"{rbac}/{kind.lower()}bindings", body)
        wait_for(partial(_may_get, server, f"sign-of-{plural}"))


def _may_get(server: Server, resource: str) -> bool:
    what = {"namespace": "default", "resource": resource, "verb": "get"}
    review = {"spec": {"user": "sign", "resourceAttributes": what}}
    answer = send(server, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def audit_events(log: Path, account: str) -> list[Object]:
    """The requests of a service account, NAMESPACE/NAME."""
    user = f"system:serviceaccount:{account.replace('/', ':')}"
    return [each for each in json_lines(log) if each["user"]["username"] == user]


def json_lines(log: Path) -> list[Object]:
    """The complete lines of a log that a program writes: the last one may be written right now."""
    return [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]


def used_rights(events: Iterable[Object]) -> set[tuple[str, str, str, str]]:
    """What was asked for: group, resource, name, verb. A request about a named object also uses a right to all."""
    found: set[tuple[str, str, str, str]] = set()
    for each in events:
        what = each.get("objectRef") or {}
        resource = "/".join(filter(None, (what.get("resource"), what.get("subresource"))))
        selected = _SELECTED_NAME.search(each["requestURI"])
        name = what.get("name") or (selected[1] if selected else "")
        for about in ("", name):
            found.add((what.get("apiGroup", ""), resource, about, each["verb"]))
    return found


def headgate(kubeconfig: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    command = [str(HEADGATE), *words, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def prepare(server: AuditedServer) -> None:
    """What the commands that read are asked about; the definitions are there already."""
    for namespace in ("teams", "team-a"):
        server.typed("create", "namespace", namespace)
    for path in ("quota-jobs.yaml", "kueue/jobs/queues-v1beta2.yaml", "kueue/jobs/gated-job.yaml"):
        server.typed("apply", "-f", str(EXAMPLES / path))
    server.typed("delete", "job", "first", "second")
    send(server, "POST", "/api/v1/nodes", a_node("node", cpu="16", pods="100"))
    send(
        server, "POST", "/api/v1/nodes", a_node("small", cpu="1", pods="100", labels={"size": "small"}, taints=[_TAINT])
    )
    send(server, "POST", f"{_QUEUES}/queues", queue_object("team", "8"))
    send(server, "POST", f"{_QUEUES}/queues", queue_object("full", "1"))
    for value in ("low", "high"):
        body = {"metadata": {"name": value}, "value": 1000 if value == "high" else 1}
        send(server, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
    _volumes(server)
    selector = {"matchLabels": {"app": "web"}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 0, "selector": selector, "template": template}
    send(server, "POST", "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "web"}, "spec": spec})
    for name, more in (("idle", {}), ("train", {"namespace": "team-a"})):
        send(server, "POST", f"/apis/batch/v1/namespaces/{more.get('namespace', 'default')}/jobs", _job(name))
    send(server, "POST", f"{_KUEUE}/namespaces/default/workloads", _workload("held"))
    create_pod(server, "gated", annotations=in_queue("full"), schedulingGates=[{"name": GATE}])
    create_pod(server, "unschedulable", {"cpu": "500"})
    create_pod(server, "of-kueue", labels={"kueue.x-k8s.io/queue-name": "nowhere", "kueue.x-k8s.io/managed": "true"})
    create_pod(
        server, "large", {"cpu": "3"}, namespace="teams", annotations=in_queue("full"), schedulingGates=[{"name": GATE}]
    )
    for number, gate in enumerate(("dependency-ready", "other", "more")):
        namespace = "teams" if gate == "more" else "default"
        labels = {"lift": "me"} if gate == "other" else {}
        create_pod(
            server,
            f"held-{number}",
            namespace=namespace,
            labels=labels,
            schedulingGates=[{"name": f"example.com/{gate}"}],
        )


# -- what happens while a component runs -------------------------------------------------------------------------------


def rehearsing(server: AuditedServer, process: Process, name: str) -> None:
    create_pod(server, "plain", schedulerName=name)
    wait_for(lambda: "would bind default/plain" in process.log.read_text(), process)
    server.typed("delete", "pod", "plain", "--grace-period=0", "--force")


def queueing(server: AuditedServer, process: Process, name: str) -> None:
    """Pods of a queue and of a group are admitted by queues, and the status of the queue has its usage."""
    for queue in ("root", "default"):
        wait_for(partial(_is_there, server, f"{_QUEUES}/queues/{queue}"), process)
    group = {"metadata": {"name": "group"}, "spec": {"minMember": 2, "queue": "team"}}
    group |= _kind("scheduling.volcano.sh/v1beta1 PodGroup")
    send(server, "POST", f"{_QUEUES}/namespaces/default/podgroups", group)
    create_pod(
        server,
        "queued",
        {"cpu": "1"},
        annotations=in_queue("team"),
        schedulingGates=[{"name": GATE}],
        schedulerName=name,
    )
    for member in ("member-0", "member-1"):
        annotations = {"scheduling.k8s.io/group-name": "group", OPT_IN: "true"}
        gates = [{"name": GATE}]
        create_pod(server, member, {"cpu": "1"}, annotations=annotations, schedulingGates=gates, schedulerName=name)
    for bound in ("queued", "member-0", "member-1"):
        wait_for(partial(node_of, server, bound), process)
    status = f"{_QUEUES}/queues/team"
    wait_for(lambda: (send(server, "GET", status).get("status") or {}).get("allocated", {}).get("cpu"), process)


def grouping_bare_pods(server: AuditedServer, process: Process, name: str) -> None:
    """A pod that names no PodGroup, and that its queue has no capacity for, gets a PodGroup."""
    create_pod(server, "bare", {"cpu": "400"}, annotations=in_queue("team"), schedulerName=name)
    groups = f"{_QUEUES}/namespaces/default/podgroups"

    def owners() -> list[str]:
        found = send(server, "GET", groups)["items"]
        return [owner["name"] for each in found for owner in each["metadata"].get("ownerReferences") or ()]

    wait_for(lambda: "bare" in owners(), process)
    server.typed("delete", "pod", "bare", "--grace-period=0", "--force")


def scheduling(server: AuditedServer, process: Process, name: str) -> None:
    """A pod that fits, one that fits nowhere, one with a volume, one that preempts another."""
    create_pod(server, "plain", schedulerName=name)
    create_pod(server, "huge", {"cpu": "400"}, schedulerName=name)
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    create_pod(server, "with-volume", schedulerName=name, volumes=[claim])
    here = {"nodeSelector": {"size": "small"}, "tolerations": [{"operator": "Exists"}], "schedulerName": name}
    create_pod(server, "victim", {"cpu": "1"}, priorityClassName="low", **here)
    for bound in ("plain", "victim"):
        wait_for(partial(node_of, server, bound), process)
    create_pod(server, "preemptor", {"cpu": "1"}, priorityClassName="high", **here)
    wait_for(lambda: "deletionTimestamp" in _read(server, "victim")["metadata"], process)
    wait_for(lambda: scheduled_reason(_read(server, "huge")) == "Unschedulable", process)
    volume = "/api/v1/persistentvolumes/local"
    wait_for(lambda: send(server, "GET", volume)["spec"].get("claimRef"), process)
    events = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name="
    for about in ("plain", "huge", "victim"):
        wait_for(partial(_items, server, f"{events}{about}"), process)


def ungating(server: AuditedServer, process: Process) -> None:
    """Pods of another scheduler are ungated by their queue and get the reason why they wait; here, that scheduler is
    kubectl."""
    for queue in ("root", "default"):
        wait_for(partial(_is_there, server, f"{_QUEUES}/queues/{queue}"), process)
    group = {"metadata": {"name": "group"}, "spec": {"minMember": 2, "queue": "team"}}
    send(
        server,
        "POST",
        f"{_QUEUES}/namespaces/default/podgroups",
        group | _kind("scheduling.volcano.sh/v1beta1 PodGroup"),
    )
    gates = [{"name": GATE}]
    for member in ("member-0", "member-1"):
        annotations = {"scheduling.k8s.io/group-name": "group", OPT_IN: "true"}
        create_pod(server, member, {"cpu": "1"}, annotations=annotations, schedulingGates=gates)
    for member in ("member-0", "member-1"):
        wait_for(partial(is_ungated, server, member), process)
        binding = {"metadata": {"name": member}, "target": {"kind": "Node", "name": "node"}} | _kind("v1 Binding")
        sent = server.request("POST", f"{_PODS}/{member}/binding", JSON_TYPE, json.dumps(binding).encode())
        assert sent.status == 201, sent.body
    create_pod(server, "queued", {"cpu": "7"}, annotations=in_queue("team"), schedulingGates=gates)
    wait_for(lambda: "has no capacity" in json.dumps(_read(server, "queued")["status"]), process)
    for path in ("queues/team", "namespaces/default/podgroups/group"):
        wait_for(partial(_has_status, server, f"{_QUEUES}/{path}"), process)


def after_ungating(server: AuditedServer) -> None:
    names = ("member-0", "member-1", "queued")
    server.typed("delete", "pod", *names, "--grace-period=0", "--force", "--ignore-not-found")
    server.typed("delete", "podgroup", "group", "--ignore-not-found")
    for queue in ("root", "default"):
        server.typed("delete", "queue.scheduling.volcano.sh", queue, "--ignore-not-found")


def after_scheduling(server: AuditedServer) -> None:
    names = ("plain", "queued", "member-0", "member-1", "huge", "with-volume", "victim", "preemptor")
    server.typed("delete", "pod", *names, "--grace-period=0", "--force", "--ignore-not-found")
    server.typed("delete", "podgroup", "group", "--ignore-not-found")
    for what in ("pvc/data", "pv/local"):  # no controller takes the finalizer off
        server.typed("patch", what, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        server.typed("delete", what)
    for queue in ("root", "default"):
        server.typed("delete", "queue.scheduling.volcano.sh", queue, "--ignore-not-found")
    _volumes(server)


def giving_quota(server: AuditedServer, process: Process, name: str) -> None:
    send(server, "POST", f"{_KUEUE}/namespaces/default/workloads", _workload("by-hand"))
    by_hand = f"{_KUEUE}/namespaces/default/workloads/by-hand"
    wait_for(lambda: (send(server, "GET", by_hand).get("status") or {}).get("admission"), process)
    server.typed("delete", "workload", "by-hand")
    queue = f"{_KUEUE}/clusterqueues/one-cpu-of-quota"
    wait_for(lambda: (send(server, "GET", queue).get("status") or {}).get("conditions"), process)
    wait_for(lambda: send(server, "GET", queue)["metadata"].get("finalizers"), process)


def keeping_jobs(server: AuditedServer, process: Process, name: str) -> None:
    """Jobs become Workloads; where quota is given they run, and a queue that is drained stops them."""
    server.typed("apply", "-f", str(EXAMPLES / "quota-jobs.yaml"))
    jobs = "/apis/batch/v1/namespaces/default/jobs"

    def workloads() -> list[str]:
        items = send(server, "GET", f"{_KUEUE}/namespaces/default/workloads")["items"]
        return [each["metadata"]["name"] for each in items if each["metadata"]["name"].startswith("job-")]

    def running() -> list[str]:
        return [
            each["metadata"]["name"] for each in send(server, "GET", jobs)["items"] if not each["spec"].get("suspend")
        ]

    wait_for(lambda: any(each.startswith("job-first") for each in workloads()), process)
    if name == "quota":
        wait_for(lambda: {"first", "second"} & set(running()), process)
        queue = f"{_KUEUE}/clusterqueues/one-cpu-of-quota"
        send(server, "PATCH", queue, {"spec": {"stopPolicy": "HoldAndDrain"}}, _MERGE)
        wait_for(lambda: not {"first", "second"} & set(running()), process)
        send(server, "PATCH", queue, {"spec": {"stopPolicy": "None"}}, _MERGE)
    server.typed("delete", "job", "first", "second", "--cascade=background")
    for each in workloads():  # no garbage collector is at work
        if each.startswith(("job-first", "job-second")):
            server.typed("patch", "workload", each, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
            server.typed("delete", "workload", each, "--ignore-not-found")


def reporting_gated_jobs(server: AuditedServer, process: Process) -> None:
    """The queues of a gated job get a condition, and lose it with the job."""
    names = {"kueue.x-k8s.io/queue-name": "team"}
    template = {
        "metadata": {"annotations": {QUEUE_NAME: "team"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    metadata = {"name": "held", "labels": names, "annotations": {"kueue.x-k8s.io/scheduling-gated-by": "x.io/data"}}
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    send(server, "POST", jobs, {"metadata": metadata, "spec": {"suspend": True, "template": template}})
    queues = (f"{_KUEUE}/namespaces/default/localqueues/team", f"{_QUEUES}/queues/team")

    def reporting() -> list[bool]:
        shown = [(send(server, "GET", path).get("status") or {}).get("conditions") for path in queues]
        return [is_true(each, "GatedJobs") for each in shown]

    wait_for(lambda: all(reporting()), process)
    server.typed("delete", "job", "held", "--cascade=background")
    wait_for(lambda: not any(reporting()), process)


def serving_webhooks(server: AuditedServer, process: Process, name: str) -> None:
    configurations = "/apis/admissionregistration.k8s.io/v1"
    for kind in ("mutating", "validating"):
        path = f"{configurations}/{kind}webhookconfigurations/headgate"
        wait_for(partial(_is_there, server, path), process)
        server.typed("delete", f"{kind}webhookconfiguration", "headgate")
        wait_for(partial(_is_there, server, path), process)
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io"
    wait_for(lambda: send(server, "GET", definition)["spec"]["conversion"]["strategy"] == "Webhook", process)


def after_webhooks(server: AuditedServer) -> None:
    for kind in ("mutating", "validating"):
        server.typed("delete", f"{kind}webhookconfiguration", "headgate", "--ignore-not-found")


def after_controlling(server: AuditedServer) -> None:
    """No kubelet beats here: the controllers have taken the nodes for dead."""
    for node, taints in (("node", []), ("small", [_TAINT])):
        send(server, "PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": taints}}, _MERGE)


def controlling(server: AuditedServer, process: Process, name: str) -> None:
    """Every kind of owner makes its pods, and a namespace ends with what is in it."""
    server.typed("create", "namespace", "controlled")
    inside = "/apis/apps/v1/namespaces/controlled"
    server.typed("apply", "-f", str(EXAMPLES / "storage.yaml"), "-n", "controlled")
    pods: Object = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    owner: Object = {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": pods}}
    for kind, plural in (("Deployment", "deployments"), ("DaemonSet", "daemonsets")):
        send(server, "POST", f"{inside}/{plural}", {**owner, "metadata": {"name": kind.lower()}})
    template = {"metadata": {"name": "data"}, "spec": {**_CLAIM, "storageClassName": "hollow-at-once"}}
    members = {**owner["spec"], "serviceName": "x", "volumeClaimTemplates": [template]}
    send(server, "POST", f"{inside}/statefulsets", {"metadata": {"name": "set"}, "spec": members})
    ends = {"template": {"spec": {**pods["spec"], "restartPolicy": "Never"}}}
    batch = "/apis/batch/v1/namespaces/controlled"
    send(server, "POST", f"{batch}/jobs", {"metadata": {"name": "job"}, "spec": ends})
    hour = (datetime.now(UTC) - timedelta(hours=3)).hour
    timed = {"schedule": f"0 {hour} * * *", "timeZone": "Etc/UTC", "jobTemplate": {"spec": ends}}
    send(server, "POST", f"{batch}/cronjobs", {"metadata": {"name": "cron"}, "spec": timed})
    before = {"status": {"lastScheduleTime": format_time(time.time() - 3 * 86400)}}
    send(server, "PATCH", f"{batch}/cronjobs/cron/status", before, _MERGE)
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
    budgets = "/apis/policy/v1/namespaces/controlled/poddisruptionbudgets"
    send(server, "POST", budgets, budget)

    def made() -> set[str]:
        items = send(server, "GET", "/api/v1/namespaces/controlled/pods")["items"]
        return {owner["kind"] for each in items for owner in each["metadata"].get("ownerReferences") or ()}

    wait_for(lambda: made() == {"ReplicaSet", "DaemonSet", "StatefulSet", "Job"}, process)
    wait_for(lambda: any("cron-" in each["metadata"]["name"] for each in send(server, "GET", f"{batch}/jobs")["items"]))
    wait_for(lambda: (send(server, "GET", f"{budgets}/b").get("status") or {}).get("observedGeneration"), process)
    wait_for(lambda: send(server, "GET", "/api/v1/persistentvolumes")["items"], process)
    wait_for(lambda: _is_there(server, "/api/v1/namespaces/controlled/serviceaccounts/default"), process)
    wait_for(lambda: _is_there(server, "/api/v1/namespaces/controlled/configmaps/kube-root-ca.crt"), process)
    server.typed("delete", "deployment", "-n", "controlled", "deployment", "--cascade=foreground", "--timeout=60s")
    server.typed("delete", "job", "-n", "controlled", "--all", "--timeout=60s")
    server.typed("delete", "pod", "-n", "controlled", "--all", "--grace-period=0", "--force")
    server.typed("delete", "namespace", "controlled", "--timeout=90s")


# -- objects -----------------------------------------------------------------------------------------------------------

_TAINT = {"key": "size", "value": "small", "effect": "NoSchedule"}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def in_queue(queue: str) -> dict[str, str]:
    return {"scheduling.volcano.sh/queue-name": queue, OPT_IN: "true"}


def queue_object(name: str, cpu: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"capability": {"cpu": cpu}}} | _kind(
        "scheduling.volcano.sh/v1beta1 Queue"
    )


def _kind(named: str) -> Object:
    api_version, kind = named.split()
    return {"apiVersion": api_version, "kind": kind}


def _job(name: str) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": "nowhere"}  # so that it takes no quota of others
    return {"metadata": {"name": name, "labels": labels}, "spec": {"suspend": True, "template": template}}


def _workload(name: str) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    sets = [{"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}]
    spec = {"queueName": "our-queue", "active": name != "held", "podSets": sets}
    return {"metadata": {"name": name}, "spec": spec} | _kind("kueue.x-k8s.io/v1beta2 Workload")


def create_pod(server: AuditedServer, name: str, requests: Object | None = None, **more: Any) -> None:
    metadata = {key: more.pop(key) for key in ("labels", "annotations") if key in more}
    namespace = more.pop("namespace", "default")
    pod = a_pod(name, requests, **more)
    pod["metadata"] = {"name": name, **metadata}
    send(server, "POST", f"/api/v1/namespaces/{namespace}/pods", pod)


def _volumes(server: AuditedServer) -> None:
    """A volume, and a claim that waits for a pod."""
    waiting = {"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}
    if not _is_there(server, "/apis/storage.k8s.io/v1/storageclasses/local"):
        body = {**waiting, "volumeBindingMode": "WaitForFirstConsumer"}
        send(server, "POST", "/apis/storage.k8s.io/v1/storageclasses", body)
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "hostPath": {"path": "/data"},
    }
    send(server, "POST", "/api/v1/persistentvolumes", {"metadata": {"name": "local"}, "spec": spec})
    send(server, "PATCH", "/api/v1/persistentvolumes/local/status", {"status": {"phase": "Available"}}, _MERGE)
    claim = {"metadata": {"name": "data"}, "spec": {**_CLAIM, "storageClassName": "local"}}
    send(server, "POST", "/api/v1/namespaces/default/persistentvolumeclaims", claim)


def _read(server: AuditedServer, name: str) -> Object:
    return send(server, "GET", f"{_PODS}/{name}")


def node_of(server: AuditedServer, name: str) -> str:
    return str(_read(server, name)["spec"].get("nodeName") or "")


def is_ungated(server: AuditedServer, name: str) -> bool:
    return not _read(server, name)["spec"].get("schedulingGates")


def _has_status(server: AuditedServer, path: str) -> bool:
    return bool(send(server, "GET", path).get("status"))


def _items(server: AuditedServer, path: str) -> list[Object]:
    return list(send(server, "GET", path)["items"])


def _is_there(server: AuditedServer, path: str) -> bool:
    return server.request("GET", path).status == 200
