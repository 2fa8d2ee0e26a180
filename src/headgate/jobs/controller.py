"""Jobs in Kueue's queues on an API server: hears of jobs and Workloads, and does what ``plan.py`` says, step by step.

A key is a job's name; its Workloads wake it, too. What one process did not finish the next one does from what the
server shows. Quota itself is given by ``quota/serving/``, pods are made by ``owners/jobs/``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Final

from headgate.jobs import terms
from headgate.jobs.ancestors import known_ancestors
from headgate.jobs.book import Book, name_of
from headgate.jobs.kin import NOBODY, Key
from headgate.jobs.kind import JobKind, Object
from headgate.jobs.matching import digest, has_pod_sets
from headgate.jobs.metrics import JobMetrics
from headgate.jobs.names import DEFAULT_QUEUE
from headgate.jobs.plan import Around, Wait, has_condition, next_for_job, next_for_orphan
from headgate.jobs.scope import Scope
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.jobs.terms import Terms
from headgate.jobs.workload import prebuilt_name, workload_name
from headgate.jobs.writing import Act, adopt, start_refused, tell
from headgate.kube.features import Features
from headgate.kube.references import controller_of
from headgate.kube.resource import NAMESPACES, Resource
from headgate.owners.contract import WHOLE, Again, Controller, Done, Interest, Later, Steps, Wake, one_by_one
from headgate.owners.effects import Answer, Create, Delete, Effect, Get, Patch
from headgate.owners.families.pods import seconds
from headgate.owners.observed import ObservedVersion
from headgate.owners.served import Served
from headgate.quota.kinds.names import LOCAL_QUEUES, WORKLOADS
from headgate.quota.names import JOB_UID_LABEL, QUOTA_RESERVED
from headgate.quota.serving.refusals import Refusals

_PATIENCE_S: Final = 10.0
"""How soon it is looked again for what a job lacks."""
_LABELS: Final = frozenset({"metadata.labels", "metadata.creationTimestamp"})


class ManagedJobs(Controller):
    name = "managed jobs"

    def __init__(self, features: Features, settings: JobSettings = DEFAULT, metrics: JobMetrics | None = None) -> None:
        self._metrics: Final = metrics or JobMetrics()
        self._features: Final = features
        self._settings: Final = settings
        self._kinds: Final = {name_of(each.resource): each for each in settings.kinds}
        resources = [each.resource for each in settings.kinds]
        known = {kind: each for kind, each in known_ancestors(settings.kinds).items() if each in resources}
        self._book: Final = Book(settings.kinds)
        self._terms: Final = Terms()
        self._namespaces: Final[dict[str, Mapping[str, str]]] = {}
        self._defaults: Final[dict[str, str]] = {}
        book = self._book
        self._scope: Final = Scope(settings, self._namespaces, self._defaults, known, book.get, book.unfinished)
        self._told: Final[dict[str, Wait]] = {}  # by the uid of a job: what its user knows already
        self._kept: Final[dict[str, str]] = {}
        self._refusals: Final = Refusals()
        self._served: frozenset[Resource] = frozenset()

    def learn(self, served: Served) -> Iterable[Wake]:
        self._served = frozenset(row.resource for row in served.by_name.values())
        return ()

    def interests(self) -> Iterable[Interest]:
        if WORKLOADS not in self._served:
            return ()
        kinds = [each.resource for each in self._kinds.values()]
        wanted = (*kinds, WORKLOADS, *terms.RESOURCES)
        whole = [Interest(each, WHOLE) for each in wanted if each in self._served]
        return [*whole, *(Interest(each, _LABELS) for each in (NAMESPACES, LOCAL_QUEUES) if each in self._served)]

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        metadata = obj["metadata"]
        name = metadata["name"]
        if resource in terms.RESOURCES:
            self._terms.put(resource, obj)
        elif resource == NAMESPACES:
            return self._relabelled(name, metadata.get("labels") or {})
        elif resource == LOCAL_QUEUES:
            if name == DEFAULT_QUEUE:
                self._defaults[metadata["namespace"]] = metadata.get("creationTimestamp") or ""
        else:
            return _wakes(self._book.put(resource, obj, told=True))
        return ()

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        if resource in terms.RESOURCES:
            self._terms.remove(resource, name)
        elif resource == NAMESPACES:
            self._namespaces.pop(name, None)
        elif resource == LOCAL_QUEUES:
            if name == DEFAULT_QUEUE:
                self._defaults.pop(namespace, None)
        else:
            self._told.pop(uid, None)
            self._kept.pop(uid, None)
            return _wakes(self._book.remove(resource, namespace, name, uid))
        return ()

    def _relabelled(self, namespace: str, labels: Mapping[str, str]) -> list[Wake]:
        before, chosen = self._namespaces.get(namespace), self._settings.namespaces
        self._namespaces[namespace] = labels
        is_other = before is None or chosen.matches(before) != chosen.matches(labels)
        return _wakes(self._book.kin.inside(namespace)) if is_other else []

    def synced(self, resource: Resource, revision: str, now_s: float) -> Iterable[Wake]:
        return _wakes(self._book.synced(resource, revision))

    def work(self, key: Key, now_s: float) -> Steps:
        if key[0] == NOBODY:
            acts = (self._lost(each, now_s) for each in self._book.workloads(key))
            act = next((act for act in acts if act is not None), None)
            return Done() if act is None else (yield from self._do(key, act))
        kind = self._kinds[key[0]]
        job = self._book.get(kind.resource, *key[1:])
        uid = "" if job is None else job["metadata"]["uid"]
        known = self._book.workloads(key)
        own = [each for each in known if _owner_uid(each) == uid]
        if len(own) < len(known):
            live = yield Get(kind.resource, *key[1:])
            if not live.ok and not live.missing:
                return Again(live.message)
            there = live.body["metadata"]["uid"] if live.ok else ""
            for each in known:
                act = next_for_orphan(each, now_s) if _owner_uid(each) not in (uid, there) else None
                if act is not None:
                    return (yield from self._do(key, act))
            if there != uid:
                return Done(_wakes(self._book.put(kind.resource, live.body))) if live.ok else Done()
        if job is None:
            self._metrics.let_go(key)
            self._refusals.forget(str(key))
            return Done()
        step = next_for_job(kind, job, own, self._offered(job), self._around(now_s))
        gate = step.gate if isinstance(step, Wait) else ""
        self._metrics.held(key, kind.kind.kind, gate, seconds(job["metadata"].get("creationTimestamp")))
        if isinstance(step, Wait):
            yield from self._say(kind, job, step)
            return Later(_PATIENCE_S) if step.is_warning else Done()
        return Done() if step is None else (yield from self._do(key, step))

    def _lost(self, workload: Object, now_s: float) -> Act | None:
        """A Workload that says whose it is by its label alone goes back to that job, if there is one."""
        uid = workload["metadata"]["labels"][JOB_UID_LABEL]
        key = self._book.kin.key_of(uid)
        job = None if key is None else self._book.get(self._kinds[key[0]].resource, *key[1:])
        if key is None or job is None or workload_name(self._kinds[key[0]], job) != workload["metadata"]["name"]:
            return next_for_orphan(workload, now_s)
        return adopt(self._kinds[key[0]], job, workload)

    def _offered(self, job: Object) -> Object | None:
        name = prebuilt_name(job)
        return self._book.get(WORKLOADS, job["metadata"]["namespace"], name) if name else None

    def _say(self, kind: JobKind, job: Object, wait: Wait) -> Generator[Effect, Answer]:
        """Once, until it is something else."""
        uid = job["metadata"]["uid"]
        if self._told.get(uid) != wait:
            self._told[uid] = wait
            yield tell(kind, job, wait.reason, wait.message, is_warning=wait.is_warning)

    def _do(self, key: Key, act: Act) -> Steps:
        write = act.write
        if write is None:
            return Done()
        name = write.obj["metadata"]["name"] if isinstance(write, Create) else write.name
        decided_on = None if isinstance(write, Create) else self._observed(write)
        answer = yield write
        is_unchanged = isinstance(write, Patch) and decided_on is not None and decided_on.is_same(answer.body)
        if act.starts and (answer.refused or (answer.ok and is_unchanged)):
            why = answer.message if answer.refused else "the server kept what it had"
            return (yield from self._give_back(key, why, answer.now_s))
        if answer.ok and self._keeps_less(write, answer):
            self._kept[answer.body["metadata"]["uid"]] = digest(_sent(write))
        elif answer.ok and is_unchanged:
            # A server that does not keep what is written (a schema without the field) would be asked for ever.
            return Again(f"{write.resource.plural} {write.namespace}/{name}: the server kept what it had")
        if act.starts and answer.ok:
            self._refusals.forget(str(key))
        if not answer.ok:
            live = yield Get(write.resource, write.namespace, name)
            woken = self._book.put(write.resource, live.body) if live.ok else []
            if live.missing and not isinstance(write, Create):
                self._forget(write.resource, write.namespace, name)
            if isinstance(write, Create) and key not in woken and not answer.unknown:
                kind = self._kinds[key[0]]
                job = self._book.get(kind.resource, *key[1:])
                why = f"Workload {write.namespace}/{name} is somebody else's" if live.ok else answer.message
                if job is not None:
                    yield from self._say(kind, job, Wait("ErrWorkloadCompose", why))
                return Again(why)
            # A version that was older is decided anew at once; what the server will not have, later each time.
            return Done([Wake(key)]) if answer.conflict else Again(answer.message)
        if isinstance(write, Create):
            self._measure(key, answer.now_s)
        yield from one_by_one(act.events)
        metadata = answer.body.get("metadata") or {}
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self._forget(write.resource, write.namespace, name)
        elif metadata.get("uid"):
            return Done(_wakes([key, *self._book.put(write.resource, answer.body)]))
        return Done([Wake(key)])

    def _give_back(self, key: Key, why: str, now_s: float) -> Steps:
        """The quota of a job that the server does not let start: others may use it meanwhile."""
        kind = self._kinds[key[0]]
        job = self._book.get(kind.resource, *key[1:])
        admitted = [each for each in self._book.workloads(key) if has_condition(each, QUOTA_RESERVED)]
        if job is None or not admitted:
            return Again(why)
        yield from self._say(kind, job, Wait("FailedToStart", why))
        act = start_refused(admitted[0], why, now_s + self._refusals.wait_s(str(key)), now_s)
        return (yield from self._do(key, act))

    def _keeps_less(self, write: Create | Patch | Delete, answer: Answer) -> bool:
        """Whether the server's Workload tells less of its pods than was written, and that is news."""
        sent, uid = _sent(write), answer.body.get("metadata", {}).get("uid")
        return bool(sent) and not has_pod_sets(answer.body, sent) and self._kept.get(uid) != digest(sent)

    def _observed(self, write: Patch | Delete) -> ObservedVersion | None:
        known = self._book.get(write.resource, write.namespace, write.name)
        return None if known is None else ObservedVersion.of(known)

    def _measure(self, key: Key, now_s: float) -> None:
        kind = self._kinds[key[0]]
        job = self._book.get(kind.resource, *key[1:])
        if job is not None:
            self._metrics.created(kind.kind.kind, seconds(job["metadata"].get("creationTimestamp")), now_s)

    def _forget(self, resource: Resource, namespace: str, name: str) -> None:
        known = self._book.get(resource, namespace, name)
        if known is not None:
            self._book.remove(resource, namespace, name, known["metadata"]["uid"])

    def _around(self, now_s: float) -> Around:
        features = self._features
        gating, holding = features.scheduling_gated_by, features.admission_gated_by
        return Around(self._terms.flavors, self._terms.classes, self._scope, gating, holding, self._kept, now_s)


def _wakes(keys: Iterable[Key]) -> list[Wake]:
    return [Wake(key) for key in dict.fromkeys(keys)]


def _sent(write: Create | Patch | Delete) -> list[Object]:
    """The pod sets of a Workload that is written."""
    if isinstance(write, Delete) or write.resource != WORKLOADS:
        return []
    body = write.obj if isinstance(write, Create) else write.body
    return (body.get("spec") or {}).get("podSets") or []


def _owner_uid(workload: Object) -> str:
    return str((controller_of(workload) or {}).get("uid", ""))
