"""The views of one cluster: a state machine that receives watch events and yields rows by topic.

It keeps the real engines, which never decide here, and light indexes beside them. An event marks what it changes;
``flush`` computes the marked rows and gives them the next revision. So a change costs what it changes, and readers ask
for the changes since the revision that they know. ``controller.py`` receives the events of a cluster;
``waiting_pages.py`` and ``explanations.py`` answer questions about units that wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.capacity.api.task import ANNOTATIONS
from headgate.capacity.conf import DEFAULTS, SchedulerConf
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.gate_policies.names import GATE_POLICIES
from headgate.kube.api_resources import NAMESPACES, NODES, PODS, APIResource
from headgate.scheduling.cache.pod import read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.config.queue_profile import QUEUE_SCHEDULERS
from headgate.views.activity import Activity, ActivityCounter
from headgate.views.gate_index import GateIndex
from headgate.views.node_index import NodeIndex
from headgate.views.pod_units import PodUnits
from headgate.views.queue_views import QueueViews
from headgate.views.quota_views import QuotaViews
from headgate.views.rows import TOPICS, OverviewRow, ProblemRow, Row, Topic
from headgate.views.topic_table import TopicChanges, TopicTable
from headgate.views.viewed_pod import ViewedPod, view_pod

Object = dict[str, Any]


class ClusterViews:
    """``revision``: of the newest change of any topic."""

    def __init__(
        self,
        served: frozenset[str] = frozenset(QUEUE_SCHEDULERS),
        gated: frozenset[str] = frozenset(),
        settings: SchedulerConf = DEFAULTS,
    ) -> None:
        self.queues: Final = QueueViews(served, gated, settings)
        self.quota: Final = QuotaViews()
        self.units: Final = PodUnits()
        self.revision = 0
        self.served: Final = served | gated
        self._activity: Final = ActivityCounter()
        self._gates: Final = GateIndex()
        self._nodes: Final = NodeIndex()
        self._shapes: Final = ShapeTable()
        self._uids: Final[dict[str, str]] = {}  # of pods, by namespace/name
        self._tables: Final[dict[Topic, TopicTable[Any]]] = {topic: TopicTable() for topic in TOPICS}
        self._problems: Final[dict[str, ProblemRow | None]] = {}  # those that change at the next flush

    # -- events ----------------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> None:
        if resource == PODS:
            self._pod_applied(obj)
        elif resource == NODES:
            self._nodes.node_applied(obj)
        elif resource == GATE_POLICIES:
            self._gates.policy_applied(obj)
        elif resource in (QUEUES, POD_GROUPS):
            self.queues.applied(resource, obj)
        else:
            if resource == NAMESPACES:
                self.queues.applied(resource, obj)
            self._workloads_changed(self.quota.applied(resource, obj, now_s))

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> None:
        if resource == PODS:
            self._pod_removed(f"{namespace}/{name}", uid)
        elif resource == NODES:
            self._nodes.node_removed(name)
            self._problems[f"node/{name}"] = None
        elif resource == GATE_POLICIES:
            self._gates.policy_removed(name)
        elif resource in (QUEUES, POD_GROUPS):
            self.queues.removed(resource, namespace, name)
        else:
            if resource == NAMESPACES:
                self.queues.removed(resource, namespace, name)
            self._workloads_changed(self.quota.removed(resource, namespace, name, now_s))

    def set_missing_rights(self, lines: Iterable[str]) -> None:
        """What could not be read, one line for each resource. It replaces the lines of the last call."""
        wanted = {f"right {line}": line for line in lines}
        shown = [key for key in self._tables["problems"].rows if key.startswith("right ")]
        self._problems.update(dict.fromkeys(key for key in shown if key not in wanted))
        fix = "grant the right to the account of this process; without it, what is shown is incomplete"
        for key, line in wanted.items():
            self._problems[key] = ProblemRow(key, "error", "MissingRight", "this process", line, "", fix)

    def _pod_applied(self, obj: Object) -> None:
        metadata = obj["metadata"]
        key, uid = f"{metadata.get('namespace', '')}/{metadata['name']}", str(metadata["uid"])
        known = self._uids.get(key)
        if known is not None and known != uid:
            self._pod_removed(key, known)
        pod = read_pod(obj, self._shapes, ANNOTATIONS)
        self._uids[key] = uid
        if isinstance(pod, str):
            self._forget(uid)
            fix = f"kubectl get pod {metadata['name']} -n {metadata.get('namespace', '')} -o yaml shows the object"
            row = ProblemRow(
                f"pod/{key}", "error", "InvalidObject", f"pod/{key}", pod, key.split("/")[0], fix, "waiting"
            )
            self._problems[row.key] = row
            return
        if f"pod/{key}" in self._tables["problems"].rows or f"pod/{key}" in self._problems:
            self._problems[f"pod/{key}"] = None
        self.queues.pod_applied(pod)
        self._set_pod(uid, view_pod(pod, obj))

    def _pod_removed(self, key: str, uid: str) -> None:
        if self._uids.get(key) == uid:
            del self._uids[key]
            if f"pod/{key}" in self._tables["problems"].rows or f"pod/{key}" in self._problems:
                self._problems[f"pod/{key}"] = None
        self._forget(uid)

    def _forget(self, uid: str) -> None:
        self.queues.pod_removed(uid)
        self._set_pod(uid, None)

    def _set_pod(self, uid: str, pod: ViewedPod | None) -> None:
        before = self.units.pods.get(uid)
        if pod is not None and pod.state == "ended":
            pod = None
        if before is None and pod is None:
            return
        self._activity.pod_changed(before, pod)
        self.units.pod_changed(before, pod)
        self._gates.pod_changed(before, pod)
        self._nodes.pod_changed(before, pod)

    def _workloads_changed(self, owners: Iterable[str]) -> None:
        for each in owners:
            if "/" in each:
                self.units.mark_workload_group(each)
            else:
                self.units.mark((each,))

    # -- rows ------------------------------------------------------------------------------------------------------

    def flush(self, now_s: float) -> bool:
        """Computes the marked rows. Returns whether any row changed; then they have the next revision."""
        revision = self.revision + 1
        tables, changed = self._tables, False
        self.units.mark(self.queues.changed_pods(now_s, self.units.pods))
        for queue_key, queue_row in self.queues.flush():
            changed |= tables["queues"].put(queue_key, queue_row, revision)
        for cluster_key, cluster_row in self.quota.flush():
            changed |= tables["cluster-queues"].put(cluster_key, cluster_row, revision)
        for key, unit in self.units.flush(self.queues.engine.queue_of, self._has_workload):
            changed |= tables["waiting"].put(key, unit, revision)
        for key, unit in self.quota.flush_waiting():
            changed |= tables["waiting"].put(key, unit, revision)
        for key, gate, problem in self._gates.flush(now_s):
            changed |= tables["gates"].put(key, gate, revision)
            self._problems[f"gate/{key}"] = problem
        for key, node, problem in self._nodes.flush():
            changed |= tables["nodes"].put(key, node, revision)
            self._problems[f"node/{key}"] = problem
        for namespace in dict.fromkeys((*self.units.take_namespaces(), *self.quota.take_namespaces())):
            changed |= tables["overview"].put(namespace, self._overview(namespace), revision)
        self._problems.update(self.queues.flush_problems())
        self._problems.update(self.quota.flush_problems())
        for key, problem in self._problems.items():
            changed |= tables["problems"].put(key, problem, revision)
        self._problems.clear()
        if changed:
            self.revision = revision
        return changed

    @property
    def activity(self) -> Activity:
        counted = self._activity
        return Activity(counted.created, counted.admitted, counted.bound, self.quota.workloads_with_quota)

    def rows(self, topic: Topic) -> list[Row]:
        return list(self._tables[topic].rows.values())

    def count(self, topic: Topic) -> int:
        return len(self._tables[topic].rows)

    def row(self, topic: Topic, key: str) -> Row | None:
        found: Row | None = self._tables[topic].rows.get(key)
        return found

    def topic_revision(self, topic: Topic) -> int:
        """Of the newest change of the topic."""
        return self._tables[topic].revision

    def changes_since(self, topic: Topic, revision: int) -> TopicChanges | None:
        """None if the revision is too old, or not of these views: then the reader has to read all rows again."""
        return None if revision > self.revision else self._tables[topic].changes_since(revision)

    def pod(self, namespace: str, name: str) -> ViewedPod | None:
        uid = self._uids.get(f"{namespace}/{name}")
        return None if uid is None else self.units.pods.get(uid)

    def _has_workload(self, pod: ViewedPod) -> bool:
        """Whether the Workload of a pod that waits for its admission is the unit that waits."""
        if not pod.waits_for_workload:
            return False
        return self.quota.has_workload(pod.uid, f"{pod.namespace}/{pod.workload_group}" if pod.workload_group else "")

    def _overview(self, namespace: str) -> OverviewRow | None:
        pending, admitted = self.quota.counts(namespace)
        row = msgspec.structs.replace(self.units.overview(namespace), pending=pending, admitted=admitted)
        return None if row == OverviewRow(namespace) else row
