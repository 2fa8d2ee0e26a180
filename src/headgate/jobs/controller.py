"""Jobs in Kueue's queues on an API server: hears of jobs and Workloads, and does what ``plan.py`` says, step by step.

A key is a job's name; its Workloads wake it, too. What one process did not finish the next one does from what the
server shows. Quota itself is given by ``quota/serving/``, pods are made by ``owners/jobs/``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

from headgate.jobs.book import NOBODY, Book, Key
from headgate.jobs.kind import JobKind, Object
from headgate.jobs.names import POD_PRIORITY_CLASSES
from headgate.jobs.plan import Around, Wait, next_for_job, next_for_orphan
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.jobs.workload import Classes
from headgate.jobs.writing import Act, tell
from headgate.kube.features import Features
from headgate.kube.references import controller_of
from headgate.kube.resource import Resource
from headgate.owners.contract import WHOLE, Again, Controller, Done, Interest, Later, Steps, Wake, one_by_one
from headgate.owners.effects import Answer, Create, Effect, Get, Patch
from headgate.owners.served import Served
from headgate.quota.flavor import ResourceFlavor, read_flavor
from headgate.quota.kinds.names import PRIORITY_CLASSES, RESOURCE_FLAVORS, WORKLOADS

_PATIENCE_S: Final = 10.0
"""How soon it is looked again for what a job lacks."""


class ManagedJobs(Controller):
    name = "managed jobs"

    def __init__(self, features: Features, settings: JobSettings = DEFAULT) -> None:
        self._gating: Final = features.scheduling_gated_by
        self._kinds: Final = {each.resource.plural: each for each in settings.kinds}
        self._book: Final = Book(settings.kinds)
        self._flavors: Final[dict[str, ResourceFlavor]] = {}
        self._classes: Final = {PRIORITY_CLASSES: dict[str, Object](), POD_PRIORITY_CLASSES: dict[str, Object]()}
        self._told: Final[dict[str, Wait]] = {}  # by the uid of a job: what its user knows already
        self._served: frozenset[Resource] = frozenset()

    def learn(self, served: Served) -> Iterable[Wake]:
        self._served = frozenset(row.resource for row in served.by_name.values())
        return ()

    def interests(self) -> Iterable[Interest]:
        if WORKLOADS not in self._served:
            return ()
        kinds = [each.resource for each in self._kinds.values()]
        wanted = (*kinds, WORKLOADS, RESOURCE_FLAVORS, PRIORITY_CLASSES, POD_PRIORITY_CLASSES)
        return [Interest(each, WHOLE) for each in wanted if each in self._served]

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        name = obj["metadata"]["name"]
        if resource in self._classes:
            self._classes[resource][name] = obj
        elif resource == RESOURCE_FLAVORS:
            flavor = read_flavor(obj)
            if isinstance(flavor, ResourceFlavor):
                self._flavors[name] = flavor
        else:
            return _wake(self._book.put(resource, obj, told=True))
        return ()

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        if resource in self._classes:
            self._classes[resource].pop(name, None)
        elif resource == RESOURCE_FLAVORS:
            self._flavors.pop(name, None)
        else:
            self._told.pop(uid, None)
            return _wake(self._book.remove(resource, namespace, name, uid))
        return ()

    def synced(self, resource: Resource, revision: str, now_s: float) -> Iterable[Wake]:
        return [Wake(key) for key in self._book.synced(resource, revision)]

    def work(self, key: Key, now_s: float) -> Steps:
        if key[0] == NOBODY:
            acts = (next_for_orphan(each, now_s) for each in self._book.workloads(key))
            orphaned = next((act for act in acts if act is not None), None)
            return Done() if orphaned is None else (yield from self._do(key, orphaned))
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
                return Done(_wake(self._book.put(kind.resource, live.body))) if live.ok else Done()
        if job is None:
            return Done()
        step = next_for_job(kind, job, own, self._around(now_s))
        if isinstance(step, Wait):
            yield from self._say(kind, job, step)
            return Later(_PATIENCE_S) if step.is_warning else Done()
        return Done() if step is None else (yield from self._do(key, step))

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
        answer = yield write
        if isinstance(write, Patch) and answer.ok and _changed_nothing(write, answer):
            return Again(f"{write.resource.plural} {write.namespace}/{write.name}: the server kept what it had")
        name = write.obj["metadata"]["name"] if isinstance(write, Create) else write.name
        if not answer.ok:
            live = yield Get(write.resource, write.namespace, name)
            woken = self._book.put(write.resource, live.body) if live.ok else None
            if live.missing and not isinstance(write, Create):
                self._forget(write.resource, write.namespace, name)
            if isinstance(write, Create) and woken != key and not answer.unknown:
                kind = self._kinds[key[0]]
                job = self._book.get(kind.resource, *key[1:])
                why = f"Workload {write.namespace}/{name} is somebody else's" if live.ok else answer.message
                if job is not None:
                    yield from self._say(kind, job, Wait("ErrWorkloadCompose", why))
                return Again(why)
            # A version that was older is decided anew at once; what the server will not have, later each time.
            return Done([Wake(key)]) if answer.conflict else Again(answer.message)
        yield from one_by_one(act.events)
        metadata = answer.body.get("metadata") or {}
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self._forget(write.resource, write.namespace, name)
        elif metadata.get("uid"):
            self._book.put(write.resource, answer.body)
        return Done([Wake(key)])

    def _forget(self, resource: Resource, namespace: str, name: str) -> None:
        known = self._book.get(resource, namespace, name)
        if known is not None:
            self._book.remove(resource, namespace, name, known["metadata"]["uid"])

    def _around(self, now_s: float) -> Around:
        classes = Classes(self._classes[PRIORITY_CLASSES], self._classes[POD_PRIORITY_CLASSES])
        return Around(self._flavors, classes, self._gating, now_s)


def _wake(key: Key | None) -> list[Wake]:
    return [] if key is None else [Wake(key)]


def _changed_nothing(write: Patch, answer: Answer) -> bool:
    """A server that does not keep what is written (a schema without the field) would be asked for ever."""
    return bool(write.body["metadata"]["resourceVersion"] == answer.body["metadata"]["resourceVersion"])


def _owner_uid(workload: Object) -> str:
    return str((controller_of(workload) or {}).get("uid", ""))
