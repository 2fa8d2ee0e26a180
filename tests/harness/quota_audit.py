"""Checks every revision of queues, Workloads, Jobs and pods against the guarantees of quota, in the order of writes.

At no revision more is reserved than a ClusterQueue and the cohorts above it may use. A workload is not admitted twice
without an eviction between, and no job has two Workloads with quota. A job runs only while its Workload is admitted.
The gate of a pod is removed once, and only then. :class:`QuotaJudge` checks a sequence of changes from any source.
:class:`QuotaAudit` watches a server from the start, over restarts, and passes all changes to the judge at the end,
ordered by resource version.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from harness.quota_limits import FlavorResource, Limits, usage_of
from harness.server import Server
from headgate.jobs.names import ADMISSION_GATE, POD_GROUP_NAME, QUEUE_NAME
from headgate.kube import conditions
from headgate.kube.object_meta import controller_of

Object = dict[str, Any]
Place = tuple[str, str]

_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
PATHS = {
    "cohorts": f"{_KUEUE}/cohorts",
    "clusterqueues": f"{_KUEUE}/clusterqueues",
    "workloads": f"{_KUEUE}/workloads",
    "jobs": "/apis/batch/v1/jobs",
    "pods": "/api/v1/pods",
}
_WATCH_S = 2


class Standing(NamedTuple):
    """What is remembered of a Workload. ``owner``: the uid of its controller."""

    uid: str
    owner: str = ""
    queue: str = ""
    usage: Mapping[FlavorResource, int] = MappingProxyType({})
    admission: str = ""
    is_admitted: bool = False
    is_evicted: bool = False
    is_finished: bool = False


class QuotaJudge:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.limits = Limits()
        self.held: dict[str, Counter[FlavorResource]] = {}
        """By ClusterQueue, what is reserved in it."""
        self.admissions: Counter[str] = Counter()
        """By uid of a Workload, how often it was admitted."""
        self.evictions = 0
        self.lifted: Counter[str] = Counter()
        """By uid of a pod."""
        self.standings: dict[Place, Standing] = {}
        self.jobs: dict[str, Object] = {}
        """By uid, those that are there."""
        self._by_owner: dict[str, set[Place]] = {}
        self._excused: set[str] = set()  # uids of Workloads that were evicted since they were admitted
        self._gated: set[str] = set()  # uids of pods
        self._revision = ""

    def take(self, plural: str, kind: str, obj: Object) -> None:
        """One change: ``ADDED``, ``MODIFIED`` or ``DELETED``."""
        self._revision = obj["metadata"]["resourceVersion"]
        {
            "cohorts": self._cohort,
            "clusterqueues": self._queue,
            "workloads": self._workload,
            "jobs": self._job,
            "pods": self._pod,
        }[plural](kind == "DELETED", obj)

    # -- queues ----------------------------------------------------------------------------------------------------

    def _cohort(self, is_gone: bool, obj: Object) -> None:
        if is_gone:
            self.limits.remove(obj["metadata"]["name"], is_cohort=True)
        else:
            self.limits.put_cohort(obj)

    def _queue(self, is_gone: bool, obj: Object) -> None:
        if is_gone:
            self.limits.remove(obj["metadata"]["name"], is_cohort=False)
        else:
            self.limits.put_queue(obj)

    # -- Workloads -------------------------------------------------------------------------------------------------

    def _workload(self, is_gone: bool, obj: Object) -> None:
        place = obj["metadata"]["namespace"], obj["metadata"]["name"]
        before = self.standings.get(place, Standing(""))
        now = Standing(obj["metadata"]["uid"]) if is_gone else _standing(obj)
        for problem in (*self._of_quota(before, now), *self._of_admission(before, now), *self._of_owner(place, now)):
            self._object(f"Workload {place[1]}: {problem}")
        self._count(before, -1)
        self._count(now, +1)
        self._by_owner.get(before.owner, set()).discard(place)
        self.standings[place] = now
        if is_gone:
            del self.standings[place]
        elif now.owner:
            self._by_owner.setdefault(now.owner, set()).add(place)
        if before.is_admitted and not now.is_admitted and not now.is_finished:
            job = self.jobs.get(before.owner)
            if job is not None and _is_running(job):
                self._object(f"Workload {place[1]} is admitted no more, and its job runs")

    def _of_quota(self, before: Standing, now: Standing) -> Iterator[str]:
        is_same = before.queue == now.queue and before.uid == now.uid
        more = {fr: amount - (before.usage.get(fr, 0) if is_same else 0) for fr, amount in now.usage.items()}
        if not any(amount > 0 for amount in more.values()):
            return
        held = {name: dict(counts) for name, counts in self.held.items()}
        if before.queue and not is_same:
            held[before.queue] = dict(Counter(held[before.queue]) - Counter(before.usage))
        yield from self.limits.overdrawn(now.queue, held, more)

    def _of_admission(self, before: Standing, now: Standing) -> Iterator[str]:
        if before.uid == now.uid:
            if before.admission and now.admission and before.admission != now.admission:
                yield f"given something else without an eviction: {before.admission} to {now.admission}"
            if before.is_finished and now.owner and not now.is_finished:
                yield "it was finished"
        if now.is_evicted:
            self.evictions += not before.is_evicted
            self._excused.add(now.uid)
        if before.is_admitted and not now.is_admitted and not now.owner:
            self._excused.add(now.uid)  # a group all of whose pods their user deletes is not evicted
        if now.is_admitted and not (before.is_admitted and before.uid == now.uid):
            if self.admissions[now.uid] and now.uid not in self._excused:
                yield "admitted twice without an eviction"
            self.admissions[now.uid] += 1
            self._excused.discard(now.uid)

    def _of_owner(self, place: Place, now: Standing) -> Iterator[str]:
        others = [each for each in self._by_owner.get(now.owner, ()) if each != place] if now.owner else []
        if now.queue and any(self.standings[each].queue for each in others):
            yield f"its owner has quota by another one: {others}"

    def _count(self, standing: Standing, sign: int) -> None:
        if standing.queue:
            counts = self.held.setdefault(standing.queue, Counter())
            for fr, amount in standing.usage.items():
                counts[fr] += sign * amount

    # -- jobs and pods ---------------------------------------------------------------------------------------------

    def _job(self, is_gone: bool, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        if is_gone:
            self.jobs.pop(uid, None)
            return
        self.jobs[uid] = obj
        if _is_running(obj) and not self._is_admitted(self._by_owner.get(uid, ())):
            self._object(f"Job {obj['metadata']['name']} runs and is not admitted")

    def _pod(self, is_gone: bool, obj: Object) -> None:
        metadata = obj["metadata"]
        uid = metadata["uid"]
        has_gate = any(each["name"] == ADMISSION_GATE for each in obj["spec"].get("schedulingGates") or ())
        if uid in self._gated and not has_gate and not is_gone:
            self.lifted[uid] += 1
            group = (metadata.get("labels") or {}).get(POD_GROUP_NAME)
            places = self._by_owner.get(uid, ()) if group is None else [(metadata["namespace"], group)]
            if self.lifted[uid] > 1:
                self._object(f"Pod {metadata['name']}: its gate went twice")
            if not self._is_admitted(places):
                self._object(f"Pod {metadata['name']}: its gate went before it was admitted")
        (self._gated.add if has_gate and not is_gone else self._gated.discard)(uid)

    def _is_admitted(self, places: Any) -> bool:
        return any(self.standings[each].is_admitted for each in places if each in self.standings)

    def _object(self, problem: str) -> None:
        self.problems.append(f"at {self._revision}: {problem}")


def _standing(obj: Object) -> Standing:
    status = obj.get("status") or {}
    told, admission = status.get("conditions"), status.get("admission")
    is_finished = conditions.is_true(told, "Finished")
    holds = admission is not None and conditions.is_true(told, "QuotaReserved") and not is_finished
    return Standing(
        obj["metadata"]["uid"],
        str((controller_of(obj) or {}).get("uid", "")),
        str((admission or {}).get("clusterQueue", "")) if holds else "",
        usage_of(obj) if holds else {},
        json.dumps(admission, sort_keys=True) if holds else "",
        conditions.is_true(told, "Admitted"),
        conditions.is_true(told, "Evicted"),
        is_finished,
    )


def _is_running(job: Object) -> bool:
    is_managed = QUEUE_NAME in (job["metadata"].get("labels") or {})
    told = (job.get("status") or {}).get("conditions")
    is_over = any(conditions.is_true(told, each) for each in ("Complete", "Failed"))
    return is_managed and not is_over and not job["spec"].get("suspend") and not _is_leaving(job)


def _is_leaving(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


class _Watch(threading.Thread):
    """Of one resource: every revision once."""

    def __init__(self, server: Server, plural: str) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._plural = plural
        listed = server.request("GET", PATHS[plural]).json()
        self.revision = str(listed["metadata"]["resourceVersion"])
        self.heard: list[tuple[str, str, Object]] = [(plural, "ADDED", each) for each in listed["items"]]
        self.problem = ""
        self.is_stopping = False

    def run(self) -> None:
        while not self.is_stopping and not self.problem:
            try:
                self._watch()
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.05)  # the server is away

    def _watch(self) -> None:
        query = f"watch=1&resourceVersion={self.revision}&timeoutSeconds={_WATCH_S}"
        watch = self._server.watch(f"{PATHS[self._plural]}?{query}")
        try:
            for line in iter(lambda: watch.lines(1), []):
                event = json.loads(line[0])
                if event["type"] == "ERROR":
                    self.problem = f"the watch of {self._plural} was refused: {event['object']}"
                    return
                self.revision = event["object"]["metadata"]["resourceVersion"]
                self.heard.append((self._plural, event["type"], event["object"]))
        finally:
            watch.close()


class QuotaAudit:
    """Begins before the load does."""

    def __init__(self, server: Server) -> None:
        self.judge = QuotaJudge()
        self._watches = {plural: _Watch(server, plural) for plural in PATHS}

    def start(self) -> None:
        for each in self._watches.values():
            each.start()

    def changes(self, plural: str) -> int:
        return len(self._watches[plural].heard)

    def finish(self) -> QuotaJudge:
        """Stops; raises if anything was wrong at any time."""
        for each in self._watches.values():
            each.is_stopping = True
        for each in self._watches.values():
            each.join(30)
            assert not each.is_alive()
        assert not any(each.problem for each in self._watches.values()), [
            each.problem for each in self._watches.values()
        ]
        heard = [event for each in self._watches.values() for event in each.heard]
        for event in sorted(heard, key=lambda event: int(event[2]["metadata"]["resourceVersion"])):
            self.judge.take(*event)
        assert not self.judge.problems, self.judge.problems
        return self.judge
