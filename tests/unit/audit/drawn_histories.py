"""Clean histories, drawn at random: a small cluster whose scheduler, queues and quota keep every rule.

The model here is as simple as it can be. Everything that it decides (whether a pod fits its queues, a Workload its
quota, a pod a node) it decides by sums over all objects; it shares no code with the checkers, the scheduler or the
controllers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME, STAMP
from headgate.jobs.names import ADMISSION_GATE, MANAGED
from headgate.jobs.names import QUEUE_NAME as LOCAL_QUEUE
from headgate.kube.timestamps import format_micro_time, format_time
from headgate.recording.changes import RecordedChange

Object = dict[str, Any]

START_S = 1_700_000_000.0
FOREIGN = "example.com/hold"
QUEUES = {"root": ("", None), "team": ("root", 6), "team-a": ("team", 4), "team-b": ("team", 4), "solo": ("root", 3)}
LEAVES = ("team-a", "team-b", "solo")
COHORTS = {"top": ("", 1), "left": ("top", 0)}
CLUSTER_QUEUES = {"cq-a": ("left", 3, 2, None), "cq-b": ("left", 3, None, 1), "cq-solo": ("", 2, None, None)}
"""Cohort, nominal quota, borrowing limit, lending limit."""
GRACE_S = 60
NODE_CPUS = 3
QUEUE_KIND = "queues.scheduling.volcano.sh"
KUEUE = "kueue.x-k8s.io"


def quota_used(name: str, used: dict[str, int], queues: Any, cohorts: Any, *, is_cohort: bool) -> int:
    """What a ClusterQueue or a cohort takes from the cohort above, by the words of Kueue's documentation: usage beyond
    the quota that it does not lend."""
    if not is_cohort:
        return used.get(name, 0)
    total = 0
    for child, (parent, *_) in queues.items():
        if parent == name:
            total += max(0, used.get(child, 0) - kept(child, queues, cohorts, is_cohort=False))
    for child, (parent, _) in cohorts.items():
        if parent == name:
            total += max(0, quota_used(child, used, queues, cohorts, is_cohort=True))
    return total


def kept(name: str, queues: Any, cohorts: Any, *, is_cohort: bool) -> int:
    if is_cohort:
        return 0
    _, nominal, _, lending = queues[name]
    return 0 if lending is None else max(0, nominal - lending)


def quota_of(name: str, queues: Any, cohorts: Any) -> int:
    """What a cohort has: its own quota, and what is lent to it."""
    total: int = cohorts[name][1]
    for parent, nominal, _, lending in queues.values():
        if parent == name:
            total += nominal if lending is None else min(nominal, lending)
    return total + sum(quota_of(child, queues, cohorts) for child, (parent, _) in cohorts.items() if parent == name)


def exceeds_quota(used: dict[str, int], queues: Any = None, cohorts: Any = None) -> bool:
    queues, cohorts = queues or CLUSTER_QUEUES, cohorts or COHORTS
    for name, (parent, nominal, borrowing, _) in queues.items():
        if not parent and used.get(name, 0) > nominal:
            return True
        if parent and borrowing is not None and used.get(name, 0) > nominal + borrowing:
            return True
    roots = [name for name, (parent, _) in cohorts.items() if not parent]
    return any(
        quota_used(name, used, queues, cohorts, is_cohort=True) > quota_of(name, queues, cohorts) for name in roots
    )


class DrawnHistory:
    """Mutable: the objects as they are, and every change so far."""

    def __init__(self, seed: int, steps: int = 70) -> None:
        self.chance = random.Random(seed)
        self.now_s = START_S
        self.revision = 100
        self.objects: dict[tuple[str, str], Object] = {}
        self.changes: list[RecordedChange] = []
        self.numbers = iter(range(10_000))
        self.limits = {name: limit for name, (_, limit) in QUEUES.items()}
        self.ends: dict[str, float] = {}
        self._create_fixtures()
        for _ in range(steps):
            self.now_s += self.chance.randint(6, 40)
            moves = list(self._moves())
            self.chance.choice(moves)()
        self._settle()

    # -- writes ----------------------------------------------------------------------------------------------------

    def write(self, resource: str, obj: Object) -> None:
        self.revision += 1
        obj = json.loads(json.dumps(obj))
        obj["metadata"]["resourceVersion"] = str(self.revision)
        self.objects[resource, obj["metadata"]["name"]] = obj
        self.changes.append(RecordedChange(resource, obj, self.now_s, self.revision, earliest_s=self.now_s))

    def create(self, resource: str, name: str, namespace: str = "", **fields: Any) -> Object:
        metadata = {
            "name": name,
            "uid": f"uid-{next(self.numbers)}",
            "creationTimestamp": format_time(self.now_s),
            **({"namespace": namespace} if namespace else {}),
            **fields.pop("metadata", {}),
        }
        self.write(resource, {"metadata": metadata, **fields})
        return self.objects[resource, name]

    def change(self, resource: str, name: str, edit: Callable[[Object], Any]) -> None:
        obj = json.loads(json.dumps(self.objects[resource, name]))
        edit(obj)
        self.write(resource, obj)

    def delete(self, resource: str, name: str) -> None:
        self.revision += 1
        obj = self.objects.pop((resource, name))
        self.changes.append(RecordedChange(resource, obj, self.now_s, self.revision, True, earliest_s=self.now_s))

    def all(self, resource: str) -> list[Object]:
        return [obj for (kind, _), obj in self.objects.items() if kind == resource]

    # -- fixtures --------------------------------------------------------------------------------------------------

    def _create_fixtures(self) -> None:
        self.create("namespaces", "default")
        for number in range(2):
            self._create_node(f"node-{number}")
        for name, (parent, limit) in QUEUES.items():
            spec: Object = {"capability": {"cpu": str(limit)}} if limit else {}
            self.create(QUEUE_KIND, name, spec={**spec, **({"parent": parent} if parent else {})})
        self.create(f"resourceflavors.{KUEUE}", "any", spec={})
        for name, (parent, nominal) in COHORTS.items():
            spec = {**({"parentName": parent} if parent else {}), **groups(nominal)}
            self.create(f"cohorts.{KUEUE}", name, spec=spec)
        for name, (cohort, nominal, borrowing, lending) in CLUSTER_QUEUES.items():
            spec = {**({"cohortName": cohort} if cohort else {}), **groups(nominal, borrowing, lending)}
            self.create(f"clusterqueues.{KUEUE}", name, spec=spec)
            self.create(f"localqueues.{KUEUE}", f"lq-{name}", "default", spec={"clusterQueue": name})

    def _create_node(self, name: str) -> None:
        amounts = {"cpu": str(NODE_CPUS), "memory": "16Gi", "pods": "110"}
        labels = {"node.kubernetes.io/instance-type": "m.large"}
        self.create("nodes", name, metadata={"labels": labels}, status={"capacity": amounts, "allocatable": amounts})

    # -- moves -----------------------------------------------------------------------------------------------------

    def _moves(self) -> Iterator[Callable[[], None]]:
        yield from [self._create_pod] * 3
        yield from [self._create_job] * 2
        yield self._create_kueue_pod
        yield self._change_limit
        yield from [self._terminate] * 2
        yield from (self._lift_foreign, self._end_pod, self._remove_terminated, self._evict)
        yield from [self._run_engines] * 6

    def _run_engines(self) -> None:
        self._admit_pods()
        self._admit_workloads()
        self._schedule()

    def _settle(self) -> None:
        """All engines run until nothing changes, so that no state is left that lasts too long."""
        for _ in range(4):
            self.now_s += 20
            self._lift_foreign()
            self._remove_terminated()
            self._run_engines()

    # -- Volcano-style queues --------------------------------------------------------------------------------------

    def _create_pod(self) -> None:
        name = f"pod-{next(self.numbers)}"
        gates = [FOREIGN, GATE] if self.chance.random() < 0.2 else [GATE]
        annotations = {OPT_IN: "true", QUEUE_NAME: self.chance.choice(LEAVES)}
        spec = pod_spec(self.chance.choice((1, 1, 2)), gates, priority=self.chance.choice((0, 0, 10)))
        self.create(
            "pods", name, "default", metadata={"annotations": annotations}, spec=spec, status=gated_status(self.now_s)
        )

    def _lift_foreign(self) -> None:
        for pod in self.all("pods"):
            if FOREIGN in gates(pod):
                self.change("pods", pod["metadata"]["name"], lambda obj: set_gates(obj, [GATE]))

    def queue_use(self, queue: str) -> int:
        below = {queue} | {name for name in QUEUES if queue in path(name)}
        return sum(cpu(pod) for pod in self.all("pods") if holds(pod) and queue_name(pod) in below)

    def _admit_pods(self) -> None:
        waiting = [pod for pod in self.all("pods") if gates(pod) == [GATE] and not is_leaving(pod)]
        blocked: set[str] = set()
        for pod in sorted(waiting, key=lambda pod: (-pod["spec"]["priority"], pod["metadata"]["creationTimestamp"])):
            queue = queue_name(pod)
            if queue in blocked:
                continue
            if all(self.queue_use(each) + cpu(pod) <= (self.limits[each] or 1000) for each in path(queue)):
                stamp = {
                    "uid": pod["metadata"]["uid"],
                    "queue": queue,
                    "requests": {"cpu": str(cpu(pod))},
                    "at": format_micro_time(self.now_s),
                }

                def admit(obj: Object, stamp: Object = stamp) -> None:
                    set_gates(obj, [])
                    obj["metadata"]["annotations"][STAMP] = json.dumps(stamp)

                self.change("pods", pod["metadata"]["name"], admit)
            else:
                blocked.add(queue)

    def _change_limit(self) -> None:
        name = self.chance.choice(("team", "team-a", "solo"))
        limit = self.chance.choice((3, 4, 5, 6, 7))
        if limit != self.limits[name]:
            self.limits[name] = limit
            self.change(QUEUE_KIND, name, lambda obj: obj["spec"].update(capability={"cpu": str(limit)}))
            self.now_s += 30

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _free(self, node: str, *, ahead: bool) -> int:
        there = [pod for pod in self.all("pods") if pod["spec"].get("nodeName") == node and not has_ended(pod)]
        if ahead:
            there = [pod for pod in there if not is_leaving(pod)]
            there += [pod for pod in self.all("pods") if pod["status"].get("nominatedNodeName") == node]
        return NODE_CPUS - sum(map(cpu, there))

    def _schedule(self) -> None:
        for pod in self.all("pods"):
            if gates(pod) or pod["spec"].get("nodeName") or is_leaving(pod) or has_ended(pod):
                continue
            name, nodes = pod["metadata"]["name"], [node["metadata"]["name"] for node in self.all("nodes")]
            others = {**pod, "status": {**pod["status"], "nominatedNodeName": ""}}
            self.objects["pods", name] = others
            fitting = [node for node in nodes if self._free(node, ahead=True) >= cpu(pod)]
            found = next((node for node in fitting if self._free(node, ahead=False) >= cpu(pod)), None)
            later = fitting[0] if fitting else None
            self.objects["pods", name] = pod
            if found is not None:
                self.change("pods", name, partial(bind, node=found, now_s=self.now_s))
            elif later is not None:
                if pod["status"].get("nominatedNodeName") != later:
                    self.change("pods", name, partial(hide, node=later, now_s=self.now_s))
            elif reason(pod) != "Unschedulable":
                self.change("pods", name, lambda obj: mark(obj, self.now_s))
        if any(reason(pod) == "Unschedulable" for pod in self.all("pods")) and len(self.all("nodes")) < 4:
            self._create_node(f"node-{next(self.numbers)}")

    def _running(self) -> list[Object]:
        return [
            pod
            for pod in self.all("pods")
            if pod["spec"].get("nodeName") and not has_ended(pod) and not is_leaving(pod)
        ]

    def _end_pod(self) -> None:
        for pod in self._running()[:2]:
            self.change("pods", pod["metadata"]["name"], lambda obj: obj["status"].update(phase="Succeeded"))
            self._finish_owner(pod)

    def _terminate(self) -> None:
        for pod in [each for each in self._running() if MANAGED not in each["metadata"].get("finalizers", ())][:1]:
            until_s = self.now_s + GRACE_S
            self.change("pods", pod["metadata"]["name"], partial(terminate, until_s=until_s))
            self.ends[pod["metadata"]["name"]] = until_s

    def _remove_terminated(self) -> None:
        for name, until_s in list(self.ends.items()):
            if until_s <= self.now_s:
                del self.ends[name]
                self.delete("pods", name)

    # -- Kueue's quota ---------------------------------------------------------------------------------------------

    def _workload(self, name: str, queue: str, count: int, owner: Object, kind: str) -> None:
        reference = {
            "kind": kind,
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        template = {"spec": {"containers": [container(1)]}}
        sets = [{"name": "main", "count": count, "template": template}]
        self.create(
            f"workloads.{KUEUE}",
            name,
            "default",
            metadata={"ownerReferences": [reference]},
            spec={"queueName": f"lq-{queue}", "priority": 0, "active": True, "podSets": sets},
            status={},
        )

    def _create_job(self) -> None:
        name, queue = f"job-{next(self.numbers)}", self.chance.choice(list(CLUSTER_QUEUES))
        count = self.chance.choice((1, 2))
        labels = {LOCAL_QUEUE: f"lq-{queue}"}
        spec = {"suspend": True, "parallelism": count}
        job = self.create("jobs.batch", name, "default", metadata={"labels": labels}, spec=spec, status={})
        self._workload(f"wl-{name}", queue, count, job, "Job")

    def _create_kueue_pod(self) -> None:
        name, queue = f"kpod-{next(self.numbers)}", self.chance.choice(list(CLUSTER_QUEUES))
        metadata = {"labels": {LOCAL_QUEUE: f"lq-{queue}", MANAGED: "true"}, "finalizers": [MANAGED]}
        spec = {**pod_spec(1, [ADMISSION_GATE]), "schedulerName": "default-scheduler"}
        pod = self.create("pods", name, "default", metadata=metadata, spec=spec, status=gated_status(self.now_s))
        self._workload(f"wl-{name}", queue, 1, pod, "Pod")

    def quota_use(self) -> dict[str, int]:
        used: dict[str, int] = {}
        for workload in self.all(f"workloads.{KUEUE}"):
            queue = reserved_queue(workload)
            if queue:
                used[queue] = used.get(queue, 0) + workload["spec"]["podSets"][0]["count"]
        return used

    def _admit_workloads(self) -> None:
        blocked: set[tuple[str, int]] = set()
        waiting = [
            each
            for each in self.all(f"workloads.{KUEUE}")
            if not reserved_queue(each) and not is_true(each, "Finished")
        ]
        for workload in sorted(waiting, key=lambda each: each["metadata"]["creationTimestamp"]):
            queue, count = workload["spec"]["queueName"].removeprefix("lq-"), workload["spec"]["podSets"][0]["count"]
            used = self.quota_use()
            used[queue] = used.get(queue, 0) + count
            if (queue, count) in blocked or exceeds_quota(used):
                blocked.add((queue, count))
                continue
            name = workload["metadata"]["name"]
            self.change(f"workloads.{KUEUE}", name, partial(reserve, queue=queue, count=count, now_s=self.now_s))
            owner = workload["metadata"]["ownerReferences"][0]
            if owner["kind"] == "Job":
                self.change("jobs.batch", owner["name"], lambda obj: obj["spec"].update(suspend=False))
            else:
                self.change("pods", owner["name"], lambda obj: set_gates(obj, []))
            if owner["kind"] == "Job" and self.chance.random() < 0.5:
                self._end_job(owner["name"], name)

    def _end_job(self, job: str, workload: str) -> None:
        self.now_s += 10
        done = {"type": "Complete", "status": "True"}
        self.change("jobs.batch", job, lambda obj: obj["status"].update(conditions=[done]))
        self.change(f"workloads.{KUEUE}", workload, lambda obj: set_condition(obj, "Finished", "True", self.now_s))

    def _finish_owner(self, pod: Object) -> None:
        if MANAGED not in pod["metadata"].get("finalizers", ()):
            return
        name = pod["metadata"]["name"]
        self.change(f"workloads.{KUEUE}", f"wl-{name}", lambda obj: set_condition(obj, "Finished", "True", self.now_s))
        self.change("pods", name, lambda obj: obj["metadata"].update(finalizers=[]))

    def _evict(self) -> None:
        for workload in self.all(f"workloads.{KUEUE}"):
            owner = workload["metadata"]["ownerReferences"][0]
            if owner["kind"] == "Job" and reserved_queue(workload) and self.chance.random() < 0.5:
                name = workload["metadata"]["name"]
                self.change(f"workloads.{KUEUE}", name, lambda obj: set_condition(obj, "Evicted", "True", self.now_s))
                self.change("jobs.batch", owner["name"], lambda obj: obj["spec"].update(suspend=True))
                self.change(f"workloads.{KUEUE}", name, lambda obj: release(obj, self.now_s))
                return


# -- objects -----------------------------------------------------------------------------------------------------------


def groups(nominal: int, borrowing: int | None = None, lending: int | None = None) -> Object:
    row: Object = {"name": "cpu", "nominalQuota": str(nominal)}
    row |= {"borrowingLimit": str(borrowing)} if borrowing is not None else {}
    row |= {"lendingLimit": str(lending)} if lending is not None else {}
    return {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": [row]}]}]}


def container(cpus: int) -> Object:
    return {"name": "main", "resources": {"requests": {"cpu": str(cpus)}}}


def pod_spec(cpus: int, gate_names: list[str], priority: int = 0) -> Object:
    return {
        "schedulerName": "headgate",
        "priority": priority,
        "schedulingGates": [{"name": each} for each in gate_names],
        "containers": [container(cpus)],
    }


def gated_status(now_s: float) -> Object:
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    return {"phase": "Pending", "conditions": [{**condition, "lastTransitionTime": format_time(now_s)}]}


def set_scheduled(pod: Object, status: str, why: str, now_s: float) -> None:
    condition = {"type": "PodScheduled", "status": status, "lastTransitionTime": format_time(now_s)}
    pod["status"]["conditions"] = [{**condition, **({"reason": why} if why else {})}]


def bind(pod: Object, node: str, now_s: float) -> None:
    pod["spec"]["nodeName"] = node
    pod["status"].pop("nominatedNodeName", None)
    pod["status"]["phase"] = "Running"
    set_scheduled(pod, "True", "", now_s)


def hide(pod: Object, node: str, now_s: float) -> None:
    pod["status"]["nominatedNodeName"] = node
    set_scheduled(pod, "False", "WaitingForTerminatingPods", now_s)


def mark(pod: Object, now_s: float) -> None:
    pod["status"].pop("nominatedNodeName", None)
    set_scheduled(pod, "False", "Unschedulable", now_s)


def terminate(pod: Object, until_s: float) -> None:
    pod["metadata"].update(deletionTimestamp=format_time(until_s), deletionGracePeriodSeconds=GRACE_S)


def set_condition(obj: Object, type_: str, status: str, now_s: float) -> None:
    told = [each for each in obj["status"].get("conditions", []) if each["type"] != type_]
    obj["status"]["conditions"] = [*told, {"type": type_, "status": status, "lastTransitionTime": format_time(now_s)}]


def reserve(workload: Object, queue: str, count: int, now_s: float) -> None:
    assignment = {"name": "main", "count": count, "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": str(count)}}
    workload["status"]["admission"] = {"clusterQueue": queue, "podSetAssignments": [assignment]}
    for each in ("QuotaReserved", "Admitted"):
        set_condition(workload, each, "True", now_s)
    set_condition(workload, "Evicted", "False", now_s)


def release(workload: Object, now_s: float) -> None:
    del workload["status"]["admission"]
    for each in ("QuotaReserved", "Admitted"):
        set_condition(workload, each, "False", now_s)


def gates(pod: Object) -> list[str]:
    return [each["name"] for each in pod["spec"].get("schedulingGates", [])]


def set_gates(pod: Object, names: list[str]) -> None:
    pod["spec"]["schedulingGates"] = [{"name": each} for each in names]


def cpu(pod: Object) -> int:
    return sum(int(each["resources"]["requests"]["cpu"]) for each in pod["spec"]["containers"])


def queue_name(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get(QUEUE_NAME, ""))


def path(queue: str) -> list[str]:
    return [queue, *path(QUEUES[queue][0])] if queue else []


def is_leaving(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def has_ended(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def reason(pod: Object) -> str:
    return next((each.get("reason", "") for each in pod["status"].get("conditions", [])), "")


def stamp(pod: Object) -> Object | None:
    text = pod["metadata"].get("annotations", {}).get(STAMP)
    return json.loads(text) if text else None


def holds(pod: Object) -> bool:
    is_promised = stamp(pod) is not None or bool(pod["spec"].get("nodeName"))
    return is_promised and queue_name(pod) != "" and not is_leaving(pod) and not has_ended(pod)


def is_true(obj: Object, type_: str) -> bool:
    return any(each["type"] == type_ and each["status"] == "True" for each in obj["status"].get("conditions", []))


def reserved_queue(workload: Object) -> str:
    if not is_true(workload, "QuotaReserved") or is_true(workload, "Finished"):
        return ""
    return str(workload["status"].get("admission", {}).get("clusterQueue", ""))


@cache
def draw(seed: int, steps: int = 70) -> list[RecordedChange]:
    """A history; it must not be changed."""
    return DrawnHistory(seed, steps).changes
