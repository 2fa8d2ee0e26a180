"""A cluster whose webhooks and whose leader are replicas of Headgate with different options.

The API server calls webhooks by the configurations that the replica which started last has written; another replica may
serve them. kube-controller-manager's Job controller, the garbage collector, a scheduler for pods of other names and a
kubelet run beside. All of it is in memory, and time passes only in ``advance``.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from clusters import a_node
from embedded import TOKEN, Embedded, Reply
from harness.quota_audit import PATHS
from harness.scheduler_audit import cpu_of
from headgate.admission.admission_review import read_review, write_review
from headgate.admission.review_scope import ReviewScope
from headgate.admission.steps import all_steps
from headgate.apiserver.authn.user import MASTERS, UserInfo
from headgate.apiserver.request.messages import WebhookAnswer, WebhookCall
from headgate.apiserver.watch.watcher import WatchCursor
from headgate.audit.quota_judge import QuotaJudge
from headgate.capacity.kinds.definitions import DEFINITIONS
from headgate.capacity.names import QUEUE_NAME, STAMP
from headgate.cli.embedded.admission_view import StoreAdmissionIndex
from headgate.controllers.framework.reconcile import Controller, WatchSpec
from headgate.controllers.garbage_collector.controller import GarbageCollector
from headgate.controllers.jobs.controller import JobController
from headgate.gate_policies.definitions import DEFINITION as GATE_POLICY_DEFINITION
from headgate.kube import conditions
from headgate.kube.feature_gates import DEFAULTS
from headgate.runtime.webhooks.configurations import MUTATING, NAME, VALIDATING, merge_configuration, own_entries
from headgate.runtime.webhooks.target import WebhookTarget
from kueue_builders import a_flavor
from skew.objects import ABSENT
from skew.replica import LEADER, Replica
from unit.controllers.kubelet import ENDS
from unit.controllers.world import World
from unit.jobs import training
from unit.jobs.pods.fixtures import SlowKubelet
from unit.jobs.queue_fixtures import COLLECTED, server_with_queue

Object = dict[str, Any]
TARGET = WebhookTarget(url="https://webhooks.example")
PODS = "/api/v1/namespaces/ns/pods"
JOBS = "/apis/batch/v1/namespaces/ns/jobs"
RUNS = "/apis/example.com/v1/namespaces/ns/trainingruns"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{KUEUE}/namespaces/ns/workloads"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups"
POLICIES = "/apis/headgate.dev/v1alpha1/gatepolicies"
USERS = {TOKEN: UserInfo(LEADER, (MASTERS,)), "alice": UserInfo("alice", (MASTERS,))}
QUOTA_CPU = 2
SLOW = "example.com/slow"
"""The label of the node while its kubelet starts no pods."""
SOON_S = (2, 5, 5, 5, 70, 70)
"""The pauses between two looks of users: terminating pods have left by then."""
DRAIN_S = (*SOON_S, 400, 700, 700)
"""All back-offs are over by then."""
QUEUE_CPU = 2


class NodeAgent(SlowKubelet):
    """Binds pods as another scheduler does, except those of ``own_names``, and runs them."""

    def __init__(self, server: Embedded, own_names: Collection[str]) -> None:
        super().__init__(server)
        self._own_names = own_names

    def watches(self) -> Iterable[WatchSpec]:
        (spec,) = super().watches()
        return (WatchSpec(spec.resource, spec.fields | {"spec.schedulerName"}),)

    def _sync(self, pod: Object, now_s: float) -> None:
        spec = pod.get("spec") or {}
        if spec.get("nodeName") and SLOW in (self._server.get("/api/v1/nodes/n").body["metadata"].get("labels") or {}):
            return
        if spec.get("nodeName") or spec.get("schedulerName") not in self._own_names:
            super()._sync(pod, now_s)


@functools.cache
def _template() -> Embedded:
    """A server with all kinds, a ClusterQueue and a Queue for two CPUs each, and a node."""
    crds = (*DEFINITIONS, GATE_POLICY_DEFINITION, training.DEFINITION)
    server = server_with_queue(QUOTA_CPU, a_flavor(), {}, DEFAULTS, crds=crds)
    server.uids = (f"00000000-0000-4000-b000-{number:012d}" for number in itertools.count(1))
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
    _created(server.post(QUEUES, {**queue, "spec": {"capability": {"cpu": str(QUEUE_CPU)}}}))
    node = a_node("n", cpu="16", pods="100")
    _created(server.post("/api/v1/nodes", node))
    _created(server.patch("/api/v1/nodes/n/status", {"status": node["status"]}))
    return server


def _created(reply: Reply) -> Object:
    assert reply.status in (200, 201), reply.body
    found: Object = reply.body
    return found


def _new_server() -> Embedded:
    template = _template()
    server = Embedded(namespace="", store=copy.deepcopy(template.api.store), compiled_by=template, users=USERS)
    server.uids = (f"00000000-0000-4000-c000-{number:012d}" for number in itertools.count(1))
    return server


class SkewedCluster(World):
    """``registered``: the replica that started last, whose entries the webhook configurations have. ``serving``: the
    replica that the API server reaches. ``leader``: the replica that holds the Leases now."""

    def __init__(self, registered: Replica, serving: Replica, leader: Replica) -> None:
        server = _new_server()
        self.leader = leader
        self._index = StoreAdmissionIndex(server.api.store, serving.settings_of_webhooks())
        super().__init__(*_processes(server, leader), kinds=(*COLLECTED, "gatepolicies", "trainingruns"), server=server)
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        self._judge = QuotaJudge()
        self._watches = {name: server.watch(path, **query) for name, path in {**PATHS, "runs": RUNS}.items()}
        self._suspended: dict[str, list[bool]] = {}
        self.check_quota()  # a watch lists the objects of the time at which it is read first
        self.register(registered)
        self.serve(serving)

    # -- replicas

    def register(self, replica: Replica) -> None:
        """The replica starts and writes its entries."""
        settings = replica.settings_of_webhooks()
        for resource in (MUTATING, VALIDATING):
            own = own_entries(resource, settings, TARGET, b"", ReviewScope(), with_conditions=False)
            path = resource.object_path("", NAME)
            reply = self.server.get(path)
            found = reply.body if reply.status == 200 else None
            merged = merge_configuration(resource, found, own, [each.component for each in own])
            if merged.wanted is not None:
                place = resource.collection_path() if found is None else path
                _created((self.server.post if found is None else self.server.put)(place, merged.wanted))

    def serve(self, replica: Replica) -> None:
        """The API server reaches this replica from now on."""
        settings = replica.settings_of_webhooks()
        self._index = StoreAdmissionIndex(self.server.api.store, settings)
        steps = {step.path: step for step in all_steps(settings) if step.path}

        def answer(path: str, call: WebhookCall) -> WebhookAnswer:
            step = steps.get(path)
            if step is None:
                return WebhookAnswer(404, b"there is no webhook", "text/plain")
            request = read_review(call.body, self.server.epoch_s)
            assert not isinstance(request, str), request
            view = self._index.view()
            response = step.handle(request, settings, view)
            if response.assumes is not None:
                view.assume(response.assumes, request.now_s)
            return WebhookAnswer(200, write_review(request.uid, response), "application/json")

        for url in list(self.server.webhooks):
            del self.server.webhooks[url]
        for resource in (MUTATING, VALIDATING):
            for entry in self.server.get(resource.object_path("", NAME)).body.get("webhooks") or ():
                url = entry["clientConfig"]["url"]
                self.server.webhooks[url] = functools.partial(answer, url.removeprefix(TARGET.url))

    def lead(self, replica: Replica) -> None:
        """The leader stops, and this replica leads."""
        self.leader = replica
        self._makers = _processes(self.server, replica)
        self.crash()
        self.advance(2)

    def agree(self, replica: Replica) -> None:
        """The roll-out is over: all replicas have these options."""
        self.register(replica)
        self.serve(replica)
        self.lead(replica)

    # -- objects

    def create(self, path: str, obj: Object, user: str = TOKEN) -> Reply:
        reply = self.server.call("POST", path, obj, authorization=f"Bearer {user}")
        self.server.epoch_s += 1
        return reply

    def created(self, path: str, obj: Object) -> Object:
        return _created(self.create(path, obj))

    def add_node(self) -> None:
        """A node with the label that pods without a node wait for."""
        node = a_node("late", cpu="16", pods="100", labels=ABSENT)
        self.created("/api/v1/nodes", node)
        _created(self.server.patch("/api/v1/nodes/late/status", {"status": node["status"]}))

    def get(self, path: str, name: str) -> Object:
        found: Object = self.server.get(f"{path}/{name}").body
        return found

    def changed(self, path: str, name: str, body: Object, how: str = "merge") -> Object:
        if path == PODS:
            how = "strategic"
        return _created(self.server.patch(f"{path}/{name}", body, how))

    def items(self, path: str) -> dict[str, Object]:
        return {each["metadata"]["name"]: each for each in self.server.get(path).body["items"]}

    # -- checks

    def check_quota(self, *allowed: str) -> None:
        """No write broke a guarantee of quota: nothing is admitted or started twice. ``allowed``: texts of problems
        that are expected."""
        events = [
            (plural, event["type"], event["object"])
            for plural, watch in self._watches.items()
            for event in map(msgspec.json.decode, _all_lines(watch))
            if event["type"] != "BOOKMARK"
        ]
        for plural, kind, obj in sorted(events, key=lambda event: int(event[2]["metadata"]["resourceVersion"])):
            if plural in ("jobs", "runs"):
                history = self._suspended.setdefault(obj["metadata"]["name"], [])
                is_suspended = bool(obj["spec"].get("suspend"))
                history += [] if history[-1:] == [is_suspended] else [is_suspended]
            if plural != "runs":
                self._judge.take(plural, kind, obj)
        problems = [each for each in self._judge.problems if not any(words in each for words in allowed)]
        assert not problems, problems

    def suspensions(self, name: str) -> list[bool]:
        """Whether the job was suspended: at its creation, and after each change."""
        self.check_quota("")
        return self._suspended[name]

    def promises(self) -> dict[str, str]:
        """What was promised so far, by object: the node or the stamp of a pod, the admission of a Workload."""
        pods = {
            f"pod {name}": pod["spec"].get("nodeName") or pod["metadata"]["annotations"].get(STAMP)
            for name, pod in self.items(PODS).items()
            if QUEUE_NAME in (pod["metadata"].get("annotations") or {})
        }
        workloads = {
            f"workload {name}": str(each["status"]["admission"])
            for name, each in self.items(WORKLOADS).items()
            if _has(each, "QuotaReserved")
        }
        return {name: value for name, value in {**pods, **workloads}.items() if value}

    def lost_promises(self, before: Mapping[str, str]) -> list[str]:
        """Which of the promises are lost. A pod with a promise may have got its node."""
        now, bound = self.promises(), {f"pod {name}" for name, pod in self.items(PODS).items() if is_bound(pod)}
        return [each for each, value in before.items() if now.get(each) != value and each not in bound]

    def is_above_limit(self) -> bool:
        """Whether the pods of the Queue on nodes use more than its limit."""
        of_queue = (
            pod for pod in self.items(PODS).values() if QUEUE_NAME in (pod["metadata"].get("annotations") or {})
        )
        return sum(map(cpu_of, filter(is_bound, of_queue))) > QUEUE_CPU

    def drain(self, pauses_s: Iterable[float] = DRAIN_S) -> list[str]:
        """Users end what runs until nothing is left. Returns what still waits then: it is stranded."""
        for seconds in pauses_s:
            if not self.left():
                break
            for name, pod in self.items(PODS).items():
                if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
                    self.changed(PODS, name, {"metadata": {"annotations": {ENDS: "Succeeded"}}})
            for name, run in self.items(RUNS).items():
                if not run["spec"].get("suspend"):
                    self.changed(RUNS, name, {"metadata": {"annotations": {training.ENDS: "Complete"}}})
            self.advance(seconds)
        return self.left()

    def left(self) -> list[str]:
        """What has not ended."""
        pods = [
            each for each in self.items(PODS).values() if each["status"].get("phase") not in ("Succeeded", "Failed")
        ]
        jobs = [each for each in self.items(JOBS).values() if not _has(each, "Complete", "Failed")]
        runs = [each for each in self.items(RUNS).values() if not _has(each, "Complete", "Failed")]
        workloads = [each for each in self.items(WORKLOADS).values() if not _has(each, "Finished")]
        return [
            f"{kind} {each['metadata']['name']}"
            for kind, found in (("pod", pods), ("job", jobs), ("run", runs), ("workload", workloads))
            for each in found
        ]


def gates_of(pod: Object) -> list[str]:
    return [each["name"] for each in pod["spec"].get("schedulingGates") or ()]


def is_bound(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _has(obj: Object, *types: str) -> bool:
    found = (obj.get("status") or {}).get("conditions")
    return any(conditions.is_true(found, each) for each in types)


def _all_lines(watch: WatchCursor) -> Iterator[bytes]:
    while lines := list(watch.pull()):
        yield from lines


def _processes(server: Embedded, leader: Replica) -> tuple[Callable[[], Controller], ...]:
    """The controllers of the leader, and what runs in every cluster."""
    numbers = (f"{number:05d}" for number in itertools.count(int(server.epoch_s) % 10_000))
    own_names = leader.scheduler_names if "scheduler" in leader.components else ("headgate",)
    return (
        lambda: JobController(lambda: next(numbers), DEFAULTS),
        GarbageCollector,
        lambda: NodeAgent(server, own_names),
        lambda: training.Trainer(server),
        *leader.makers(server),
    )
