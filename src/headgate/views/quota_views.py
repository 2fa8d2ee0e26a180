"""Kueue's kinds: rows of ClusterQueues, Cohorts and LocalQueues, the Workloads that wait, and what is wrong.

The quota engine receives all objects and never decides here, as for ``headgate workloads``. A change of a Workload
costs its queues and the Cohorts above them. A change of a ClusterQueue, a Cohort or a flavor, which is rare, costs all
ClusterQueues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.reconcile import WatchSpec
from headgate.kube.api_resources import LIMIT_RANGES, NAMESPACES, RUNTIME_CLASSES, APIResource
from headgate.kube.object_meta import owner_references
from headgate.kube.resource_amounts import amount_text
from headgate.quota import names
from headgate.quota.api.workload import Workload
from headgate.quota.cache.quota_tree import QuotaNode
from headgate.quota.controller.engine_inputs import EngineInputs
from headgate.quota.engine import QuotaEngine, QuotaSettings
from headgate.quota.explain.workload_list import owners_of, state_of, state_reason
from headgate.quota.kinds.names import ADMISSION_CHECKS, LOCAL_QUEUES, WORKLOADS
from headgate.quota.status.workload_counters import CountedWorkload, WorkloadCounters
from headgate.views.rows import ProblemRow, QuotaResource, QuotaRow, Topic, WaitingRow, WaitingState, asks_text

Object = dict[str, Any]

_WAITING: Final[Mapping[str, WaitingState]] = {
    "pending": "pending",
    "quotareserved": "checks",
    "waitingtostart": "waits_to_start",
}
_FOR_PODS: Final = frozenset({LIMIT_RANGES, RUNTIME_CLASSES})


class QuotaViews:
    def __init__(self) -> None:
        self.engine: Final = QuotaEngine(QuotaSettings())
        self.rows: Final[dict[str, WaitingRow]] = {}  # of Workloads that wait, by namespace/name
        self.workloads_with_quota = 0  # how often one got quota
        self._inputs: Final = EngineInputs(self.engine, watches_pods=False)
        self._counters: Final = WorkloadCounters()
        self._owners: Final[dict[str, tuple[str, ...]]] = {}  # uids of the owners of each Workload
        self._owned: Final[Counter[str]] = Counter()  # Workloads by the uid of an owner
        self._used_queue: Final[dict[str, str]] = {}  # the ClusterQueue in which a Workload counts
        self._named: Final[dict[str, dict[str, None]]] = {}  # Workloads that wait, by LocalQueue
        self._specs: Final[dict[tuple[str, str], tuple[Any, ...]]] = {}  # what is configured, by kind and key
        self._shown_cohorts: Final[set[str]] = set()
        self._invalid: Final[set[str]] = set()  # Workloads
        self._counts: Final[dict[str, Counter[str]]] = {}  # by namespace
        self._states: Final[dict[str, str]] = {}
        self._dirty: Final[dict[str, None]] = {}  # keys of rows
        self._dirty_rows: Final[dict[str, None]] = {}  # keys of Workloads
        self._dirty_namespaces: Final[dict[str, None]] = {}
        self._dirty_named: Final[dict[str, None]] = {}
        self._problems: dict[str, ProblemRow] = {}
        self._are_problems_dirty = False

    def discovered(self, served: DiscoveredKinds) -> None:
        self._inputs.discovered(served)

    def watches(self) -> Iterator[WatchSpec]:
        yield from self._inputs.watches()

    def handles(self, resource: APIResource) -> bool:
        return resource in self._inputs.removed

    # -- events ----------------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> tuple[str, ...]:
        """Returns the uids and the keys of groups that have a Workload now and had none before, or the other way
        round."""
        if resource == WORKLOADS:
            return self._workload_applied(obj, now_s)
        self._inputs.applied[resource](obj, now_s)
        key, configured = _key_of(obj["metadata"]), _configured(resource, obj)
        if self._specs.get((resource.plural, key)) != configured:  # the status, which changes often, is not in it
            self._specs[resource.plural, key] = configured
            self._configuration_changed(resource, key)
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, now_s: float) -> tuple[str, ...]:
        key = f"{namespace}/{name}" if namespace else name
        if resource == WORKLOADS:
            return self._workload_removed(key, now_s)
        self._inputs.removed[resource](key, now_s)
        if self._specs.pop((resource.plural, key), None) is not None:
            self._configuration_changed(resource, key)
        return ()

    def _configuration_changed(self, resource: APIResource, key: str) -> None:
        if resource == NAMESPACES:
            return
        if resource in _FOR_PODS:
            self._dirty_rows.update(dict.fromkeys(self.rows))  # the requests of templates have other defaults
            return
        self._are_problems_dirty = True
        if resource == LOCAL_QUEUES:
            local = self.engine.cache.local_queues.get(key)
            self._mark_counted(self._counters.set_cluster_queue(key, "" if local is None else local.cluster_queue))
            self._dirty[f"LocalQueue/{key}"] = None
            self._dirty_named[key] = None
            self._dirty_rows.update(dict.fromkeys(self._named.get(key, ())))
            return
        cache = self.engine.cache
        self._dirty[f"ClusterQueue/{key}"] = None
        self._dirty.update(dict.fromkeys(f"ClusterQueue/{name}" for name in cache.queues))
        self._dirty.update(dict.fromkeys(f"LocalQueue/{name}" for name in cache.local_queues))
        cohorts = {*self._shown_cohorts, *(each.name for each in self.engine.ledger.now.cohorts())}
        self._dirty.update(dict.fromkeys(f"Cohort/{name}" for name in sorted(cohorts)))

    def _workload_applied(self, obj: Object, now_s: float) -> tuple[str, ...]:
        key = _key_of(obj["metadata"])
        self._mark_usage(key)
        self.engine.workload_applied(obj, now_s)
        self._mark_usage(key)
        changed = self._set_owners(key, tuple(str(each.get("uid", "")) for each in owner_references(obj)))
        workload = self.engine.workloads.get(key)
        is_invalid = ("Workload", key) in self.engine.cache.problems
        if is_invalid or key in self._invalid:
            self._are_problems_dirty = True
        if is_invalid or workload is None:
            self._invalid.add(key)
            self._forget(key)
            return changed
        self._invalid.discard(key)
        self._count(workload)
        state = _WAITING.get("" if workload.is_terminating else state_of(workload))
        self._set_row(key, None if state is None else self._row(workload, state, obj))
        return changed

    def _forget(self, key: str) -> None:
        self._mark_counted(self._counters.put(key, None))
        self._set_state(key, "")
        self._set_row(key, None)

    def _workload_removed(self, key: str, now_s: float) -> tuple[str, ...]:
        self._mark_usage(key)
        self.engine.workload_removed(key, now_s)
        self._mark_usage(key)
        if key in self._invalid:
            self._invalid.discard(key)
            self._are_problems_dirty = True
        self._forget(key)
        return self._set_owners(key, None)

    def _mark_usage(self, key: str) -> None:
        """The ClusterQueue that the Workload uses, before and after a change, and the Cohorts above it."""
        holder = self.engine.ledger.get(key)
        for queue in dict.fromkeys((self._used_queue.get(key, ""), "" if holder is None else holder.queue)):
            node: QuotaNode | None = self.engine.ledger.now.queue(queue) if queue else None
            for each in () if node is None else node.path():
                self._dirty[f"{'ClusterQueue' if each.is_queue else 'Cohort'}/{each.name}"] = None
        if holder is not None:
            self._used_queue[key] = holder.queue
        else:
            self._used_queue.pop(key, None)

    def _count(self, workload: Workload) -> None:
        local = self.engine.cache.local_queues.get(workload.queue_key)
        queue = "" if local is None else local.cluster_queue
        if workload.holds_quota and workload.admission is not None:
            queue = workload.admission.cluster_queue
        counted: CountedWorkload | None = None
        state = "" if workload.is_finished else state_of(workload)
        if state == "pending":
            counted = CountedWorkload(workload.queue_key, queue, "waiting")
        elif state:
            is_admitted = state in ("admitted", "waitingtostart")
            counted = CountedWorkload(workload.queue_key, queue, "admitted" if is_admitted else "reserving")
        self._mark_counted(self._counters.put(workload.key, counted))
        self._set_state(workload.key, "" if not state else "pending" if state == "pending" else "admitted")

    def _mark_counted(self, changed: list[Any]) -> None:
        for kind, name in changed:
            self._dirty[f"{'ClusterQueue' if kind == 'cluster queue' else 'LocalQueue'}/{name}"] = None

    def _set_state(self, key: str, state: str) -> None:
        before, namespace = self._states.pop(key, ""), key.partition("/")[0]
        if before == state and not state:
            return
        if state == "admitted" and before != state:
            self.workloads_with_quota += 1
        counts = self._counts.setdefault(namespace, Counter())
        if before:
            counts[before] -= 1
        if state:
            self._states[key] = state
            counts[state] += 1
        if not +counts:
            del self._counts[namespace]
        self._dirty_namespaces[namespace] = None

    def _set_owners(self, key: str, uids: tuple[str, ...] | None) -> tuple[str, ...]:
        """Returns what has a Workload now and had none before, or the other way round: uids, and the key itself."""
        before = self._owners.pop(key, None)
        for uid in before or ():
            self._owned[uid] -= 1
            if not self._owned[uid]:
                del self._owned[uid]
        if uids is not None:
            self._owners[key] = uids
            self._owned.update(uids)
        return () if before == uids else tuple(dict.fromkeys((*(before or ()), *(uids or ()), key)))

    def has_workload(self, uid: str, group_key: str) -> bool:
        return uid in self._owned or group_key in self._owners

    def workloads_of(self, uids: set[str], group_key: str) -> list[str]:
        """The keys of the Workloads of an object, or of a group of pods. For single calls: it looks at all of them."""
        return sorted(key for key, owners in self._owners.items() if key == group_key or not uids.isdisjoint(owners))

    # -- rows ------------------------------------------------------------------------------------------------------

    def _row(self, workload: Workload, state: WaitingState, obj: Object) -> WaitingRow:
        asks: Counter[str] = Counter()
        pods = 0
        for pod_set in workload.pod_sets:
            count = workload.count_of(pod_set)
            pods += count
            asks.update({name: amount * count for name, amount in pod_set.requests.items()})
        reason, message = state_reason(workload, state_of(workload))
        owners = owners_of(obj)
        return WaitingRow(
            f"Workload/{workload.key}",
            "Workload",
            workload.namespace,
            workload.name,
            state,
            self._queue_of(workload),
            workload.queue,
            pods,
            asks_text(asks),
            workload.created_s,
            workload.priority,
            tuple(each.strip() for each in workload.gates.split(",") if each.strip()),
            f"{owners[0].type}/{owners[0].name}" if owners else "",
            reason,
            message,
        )

    def _queue_of(self, workload: Workload) -> str:
        if workload.holds_quota and workload.admission is not None:
            return workload.admission.cluster_queue
        local = self.engine.cache.local_queues.get(workload.queue_key)
        return "" if local is None else local.cluster_queue

    def _set_row(self, key: str, row: WaitingRow | None) -> None:
        before = self.rows.pop(key, None)
        if row is not None:
            self.rows[key] = row
        for each, sign in ((before, -1), (row, +1)):
            if each is not None:
                named = f"{each.namespace}/{each.local_queue}"
                keys = self._named.setdefault(named, {})
                if sign > 0:
                    keys[key] = None
                else:
                    keys.pop(key)
                if not keys:
                    del self._named[named]
                self._dirty_named[named] = None
        self._dirty_rows[key] = None

    def take_namespaces(self) -> list[str]:
        found = list(self._dirty_namespaces)
        self._dirty_namespaces.clear()
        return found

    def counts(self, namespace: str) -> tuple[int, int]:
        """Pending and admitted Workloads."""
        counts = self._counts.get(namespace, Counter())
        return counts["pending"], counts["admitted"]

    def flush_waiting(self) -> Iterator[tuple[str, WaitingRow | None]]:
        changed = list(self._dirty_rows)
        self._dirty_rows.clear()
        for key in changed:
            row, workload = self.rows.get(key), self.engine.workloads.get(key)
            if row is not None and workload is not None:
                row = self.rows[key] = _with_queue(row, self._queue_of(workload), workload)
            yield f"Workload/{key}", row

    def flush(self) -> Iterator[tuple[str, QuotaRow | None]]:
        changed = list(self._dirty)
        self._dirty.clear()
        for key in changed:
            kind, _, name = key.partition("/")
            if kind == "ClusterQueue":
                yield key, self._cluster_queue(key, name)
            elif kind == "Cohort":
                yield key, self._cohort(key, name)
            else:
                yield key, self._local_queue(key, name)

    def _cluster_queue(self, key: str, name: str) -> QuotaRow | None:
        queue, cache = self.engine.cache.queues.get(name), self.engine.cache
        if queue is None:
            return None
        counts = self._counters.counts(("cluster queue", name))
        activity = cache.activity.get(name)
        is_active = activity is not None and activity.is_active
        return QuotaRow(
            key,
            "ClusterQueue",
            name,
            parent=f"Cohort/{queue.cohort}" if queue.cohort else "",
            strategy=queue.strategy,
            active=is_active,
            reason="" if is_active or activity is None else activity.message,
            pending=counts.states["waiting"],
            reserving=counts.states["reserving"],
            admitted=counts.states["admitted"],
            resources=_resources(self.engine.ledger.now.queue(name)),
        )

    def _cohort(self, key: str, name: str) -> QuotaRow | None:
        node = self.engine.ledger.now.cohort(name)
        if node is None:
            self._shown_cohorts.discard(name)
            return None
        self._shown_cohorts.add(name)
        parent = node.parent.name if node.parent is not None else ""
        return QuotaRow(key, "Cohort", name, parent=f"Cohort/{parent}" if parent else "", resources=_resources(node))

    def _local_queue(self, key: str, name: str) -> QuotaRow | None:
        local = self.engine.cache.local_queues.get(name)
        if local is None:
            return None
        counts = self._counters.counts(("local queue", name))
        problem = self._local_queue_problem(name)
        return QuotaRow(
            key,
            "LocalQueue",
            local.name,
            local.namespace,
            f"ClusterQueue/{local.cluster_queue}" if local.cluster_queue else "",
            active=not problem,
            reason=problem,
            pending=counts.states["waiting"],
            reserving=counts.states["reserving"],
            admitted=counts.states["admitted"],
        )

    def _local_queue_problem(self, key: str) -> str:
        local = self.engine.cache.local_queues.get(key)
        if local is None:
            return f"LocalQueue {key} does not exist"
        if local.stop_policy != names.NONE:
            return f"LocalQueue {key} is stopped"
        activity = self.engine.cache.activity.get(local.cluster_queue)
        if activity is None:
            return f"its ClusterQueue {local.cluster_queue} does not exist"
        return "" if activity.is_active else f"its ClusterQueue {local.cluster_queue} is not active"

    # -- problems --------------------------------------------------------------------------------------------------

    def flush_problems(self) -> Iterator[tuple[str, ProblemRow | None]]:
        if self._are_problems_dirty:
            self._are_problems_dirty = False
            self._dirty_named.update(dict.fromkeys(self._named))
            found = {row.key: row for row in self._object_problems()}
            for key in {**self._problems, **found}:
                if self._problems.get(key) != found.get(key):
                    yield key, found.get(key)
            self._problems = found
        for named in list(self._dirty_named):
            yield f"localqueue {named}", self._named_problem(named)
        self._dirty_named.clear()

    def _object_problems(self) -> Iterator[ProblemRow]:
        cache = self.engine.cache
        for (kind, name), text in cache.problems.items():
            namespace = name.partition("/")[0] if "/" in name else ""
            fix = f"correct it: kubectl edit {kind.lower()} {name.rpartition('/')[2]}"
            fix += f" -n {namespace}" if namespace else ""
            topic: Topic = "waiting" if kind == "Workload" else "cluster-queues"
            subject = f"{kind}/{name}"
            yield ProblemRow(f"object {subject}", "error", "InvalidObject", subject, text, namespace, fix, topic)
        for name, activity in cache.activity.items():
            if not activity.is_active and name in cache.queues:
                fix = f"kubectl describe clusterqueue {name} shows its condition Active"
                key, subject = f"inactive {name}", f"ClusterQueue/{name}"
                yield ProblemRow(key, "error", activity.reason, subject, activity.message, "", fix, "cluster-queues")

    def _named_problem(self, key: str) -> ProblemRow | None:
        """A LocalQueue that Workloads name and that cannot admit any."""
        count, text = len(self._named.get(key, ())), self._local_queue_problem(key)
        if not count or not text:
            return None
        namespace, _, name = key.partition("/")
        if not name:
            return None
        waits = f"{count} {'Workload waits' if count == 1 else 'Workloads wait'} in it"
        fix = f"create it, start it, or correct its ClusterQueue: kubectl describe localqueue {name} -n {namespace}"
        return ProblemRow(
            f"localqueue {key}",
            "error",
            "LocalQueueNotActive",
            f"LocalQueue/{key}",
            f"{text}; {waits}",
            namespace,
            fix,
            "waiting",
        )


def _key_of(metadata: Object) -> str:
    namespace = metadata.get("namespace") or ""
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _configured(resource: APIResource, obj: Object) -> tuple[Any, ...]:
    """What users configure. The activity of an AdmissionCheck is in its conditions."""
    metadata = obj["metadata"]
    conditions = (obj.get("status") or {}).get("conditions") if resource == ADMISSION_CHECKS else None
    data = {key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")}
    return data, metadata.get("annotations"), metadata.get("deletionTimestamp") is not None, conditions


def _with_queue(row: WaitingRow, queue: str, workload: Workload) -> WaitingRow:
    """The row with what follows from other objects: the ClusterQueue, and defaults of requests."""
    asks: Counter[str] = Counter()
    for pod_set in workload.pod_sets:
        count = workload.count_of(pod_set)
        asks.update({name: amount * count for name, amount in pod_set.requests.items()})
    return msgspec.structs.replace(row, queue=queue, asks=asks_text(asks))


def _resources(node: QuotaNode | None) -> tuple[QuotaResource, ...]:
    if node is None:
        return ()
    nominal = {fr: quota.nominal for fr, quota in node.quotas.items()} if node.is_queue else node.subtree
    found = []
    for flavor, resource in sorted({*nominal, *(fr for fr, used in node.usage.items() if used)}):
        fr = flavor, resource
        quota, used, own = node.quota(fr), node.usage.get(fr, 0), nominal.get(fr, 0)
        borrowed = max(used - own, 0) if node.parent is not None else 0
        parts = [f"{amount_text(resource, used)} of {amount_text(resource, own)} used"]
        parts += [f"{amount_text(resource, borrowed)} borrowed"] if borrowed else []
        found.append(
            QuotaResource(
                flavor,
                resource,
                own,
                used,
                borrowed,
                quota.borrowing_limit,
                quota.lending_limit,
                ", ".join(parts),
            )
        )
    return tuple(found)
