"""Checks quota in the manner of Kueue: ClusterQueues, cohorts, Workloads, Jobs and pods, in the order of writes.

At no revision more is reserved than a ClusterQueue and the cohorts above it may use. A Workload is not admitted twice
without an eviction between, and no owner has two Workloads with quota. A job runs only while its Workload is admitted.
The gate of a pod is removed once, and only then; the Workload stays admitted until the pod ends or terminates.
``quota_limits.py`` has the arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from headgate.audit.findings import Finding
from headgate.audit.quota_limits import FlavorResource, Limits, usage_of
from headgate.jobs.framework.release_mark import is_released
from headgate.jobs.names import ADMISSION_GATE, POD_GROUP_NAME, QUEUE_NAME
from headgate.kube import conditions
from headgate.kube.object_meta import controller_of
from headgate.kube.timestamps import parse_time

Object = dict[str, Any]
Place = tuple[str, str]
"""Namespace and name."""
Problem = tuple[str, str]
"""Rule and text."""

_LATE_S: Final = 2.0
"""A grant that was decided before a limit was lowered may be written this much later."""


class WorkloadStanding(NamedTuple):
    """What is remembered of a Workload. ``owner``: the uid of its controller."""

    uid: str
    owner: str = ""
    queue: str = ""
    usage: Mapping[FlavorResource, int] = MappingProxyType({})
    admission: str = ""
    is_admitted: bool = False
    is_evicted: bool = False
    is_finished: bool = False
    reserved_s: float = 0.0


class QuotaJudge:
    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.limits = Limits()
        self.held: dict[str, Counter[FlavorResource]] = {}
        """By ClusterQueue, what is reserved in it."""
        self.admissions: Counter[str] = Counter()
        """By uid of a Workload, how often it was admitted."""
        self.evictions = 0
        self.lifted: Counter[str] = Counter()
        """By uid of a pod, how often its gate was removed."""
        self.standings: dict[Place, WorkloadStanding] = {}
        self.jobs: dict[str, Object] = {}
        """By uid, those that exist."""
        self._by_owner: dict[str, set[Place]] = {}
        self._excused: set[str] = set()  # uids of Workloads that were evicted since they were admitted
        self._gated: set[str] = set()  # uids of pods
        self._running_pods: dict[Place, set[str]] = {}  # names by group; one name by uid if there is no group
        self._limits_changed_s = 0.0
        self._revision = 0
        self._at_s = 0.0
        self._observed = True

    @property
    def problems(self) -> list[str]:
        """The texts of all findings."""
        return [each.line for each in self.findings]

    def take(self, plural: str, kind: str, obj: Object, at_s: float = 0.0, *, observed: bool = True) -> None:
        """One change: ``ADDED``, ``MODIFIED`` or ``DELETED``. A change that is not observed has no findings."""
        revision = str(obj["metadata"].get("resourceVersion") or "")
        self._revision = int(revision) if revision.isdecimal() else 0
        self._at_s, self._observed = at_s, observed
        is_deleted = kind == "DELETED"
        match plural:
            case "cohorts":
                self._take_limits(is_deleted, obj, is_cohort=True)
            case "clusterqueues":
                self._take_limits(is_deleted, obj, is_cohort=False)
            case "workloads":
                self._take_workload(is_deleted, obj)
            case "jobs":
                self._take_job(is_deleted, obj)
            case "pods":
                self._take_pod(is_deleted, obj)

    # -- queues ----------------------------------------------------------------------------------------------------

    def _take_limits(self, is_deleted: bool, obj: Object, *, is_cohort: bool) -> None:
        if is_deleted:
            changed = self.limits.remove(obj["metadata"]["name"], is_cohort=is_cohort)
        else:
            changed = self.limits.put_cohort(obj) if is_cohort else self.limits.put_queue(obj)
        if changed:
            self._limits_changed_s = self._at_s

    # -- Workloads -------------------------------------------------------------------------------------------------

    def _take_workload(self, is_deleted: bool, obj: Object) -> None:
        place = obj["metadata"]["namespace"], obj["metadata"]["name"]
        before = self.standings.get(place, WorkloadStanding(""))
        now = WorkloadStanding(obj["metadata"]["uid"]) if is_deleted else read_standing(obj)
        subject = f"Workload {place[0]}/{place[1]}"
        for rule, text in (*self._of_quota(before, now), *self._of_admission(before, now), *self._of_owner(place, now)):
            self._find(rule, subject, text)
        self._count(before, -1)
        self._count(now, +1)
        self._leave_owner(before.owner, place)
        if is_deleted:
            self.standings.pop(place, None)
        else:
            self.standings[place] = now
            if now.owner:
                self._by_owner.setdefault(now.owner, set()).add(place)
        if before.is_admitted and not now.is_admitted and not now.is_finished:
            self._check_runs(place, before, subject)

    def _leave_owner(self, owner: str, place: Place) -> None:
        places = self._by_owner.get(owner)
        if places is not None:
            places.discard(place)
            if not places:
                del self._by_owner[owner]

    def forget(self, uid: str) -> None:
        """The pod or Workload is gone, and its history with it."""
        self.lifted.pop(uid, None)
        self.admissions.pop(uid, None)
        self._excused.discard(uid)

    def _check_runs(self, place: Place, before: WorkloadStanding, subject: str) -> None:
        job = self.jobs.get(before.owner)
        if job is not None and _is_running(job):
            since = f"unsuspended at {job['metadata']['resourceVersion']} or before"
            self._find("runs-without-admission", subject, f"it is admitted no more, and its job runs ({since})")
        for pod in sorted(self._running_pods.get(place, set()) | self._running_pods.get(("", before.owner), set())):
            self._find("runs-without-admission", subject, f"it is admitted no more, and its pod {pod} runs")

    def _of_quota(self, before: WorkloadStanding, now: WorkloadStanding) -> Iterator[Problem]:
        is_same = before.queue == now.queue and before.uid == now.uid
        more = {fr: amount - (before.usage.get(fr, 0) if is_same else 0) for fr, amount in now.usage.items()}
        if not any(amount > 0 for amount in more.values()):
            return
        if now.reserved_s and now.reserved_s <= self._limits_changed_s + _LATE_S and self._limits_changed_s:
            return  # the grant may be older than the present limits
        held = {name: dict(counts) for name, counts in self.held.items()}
        if before.queue and not is_same:
            held[before.queue] = dict(Counter(held[before.queue]) - Counter(before.usage))
        for text in self.limits.overdrawn(now.queue, held, more):
            yield "over-admission", text

    def _of_admission(self, before: WorkloadStanding, now: WorkloadStanding) -> Iterator[Problem]:
        if before.uid == now.uid:
            if before.admission and now.admission and before.admission != now.admission:
                text = f"given something else without an eviction: {before.admission} to {now.admission}"
                yield "promise-changed", text
            if before.is_finished and now.owner and not now.is_finished:
                yield "finished-again", "it was finished"
        if now.is_evicted:
            self.evictions += not before.is_evicted
            self._excused.add(now.uid)
        if before.is_admitted and not now.is_admitted and not now.owner:
            self._excused.add(now.uid)  # a group all of whose pods their user deletes is not evicted
        if now.is_admitted and not (before.is_admitted and before.uid == now.uid):
            if self.admissions[now.uid] and now.uid not in self._excused:
                yield "admitted-twice", "admitted twice without an eviction"
            self.admissions[now.uid] += 1
            self._excused.discard(now.uid)

    def _of_owner(self, place: Place, now: WorkloadStanding) -> Iterator[Problem]:
        others = [each for each in self._by_owner.get(now.owner, ()) if each != place] if now.owner else []
        if now.queue and any(self.standings[each].queue for each in others):
            yield "two-holders", f"its owner has quota by another one: {others}"

    def _count(self, standing: WorkloadStanding, sign: int) -> None:
        if standing.queue:
            counts = self.held.setdefault(standing.queue, Counter())
            for fr, amount in standing.usage.items():
                counts[fr] += sign * amount

    # -- jobs and pods ---------------------------------------------------------------------------------------------

    def _take_job(self, is_deleted: bool, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        if is_deleted:
            self.jobs.pop(uid, None)
            return
        self.jobs[uid] = obj
        if _is_running(obj) and not self._is_admitted(self._by_owner.get(uid, ())):
            subject = f"Job {obj['metadata']['namespace']}/{obj['metadata']['name']}"
            self._find("runs-without-admission", subject, "it runs and is not admitted")

    def _take_pod(self, is_deleted: bool, obj: Object) -> None:
        metadata = obj["metadata"]
        uid, subject = metadata["uid"], f"Pod {metadata['namespace']}/{metadata['name']}"
        named = ((metadata.get(each) or {}).get(POD_GROUP_NAME) for each in ("annotations", "labels"))
        group = next(filter(None, named), None)
        has_gate = any(each["name"] == ADMISSION_GATE for each in obj["spec"].get("schedulingGates") or ())
        if uid in self._gated and not has_gate and not is_deleted:
            self.lifted[uid] += 1
            places = self._by_owner.get(uid, ()) if group is None else [(metadata["namespace"], group)]
            if self.lifted[uid] > 1:
                self._find("gate-lifted-twice", subject, "its gate was removed twice")
            if not self._is_admitted(places) and not is_released(obj):
                self._find("gate-lifted-before-admission", subject, "its gate was removed before it was admitted")
        (self._gated.add if has_gate and not is_deleted else self._gated.discard)(uid)
        unit = ("", uid) if group is None else (metadata["namespace"], group)
        is_excluded = is_deleted or has_gate or _is_leaving(obj) or _has_ended(obj) or is_released(obj)
        runs = self.lifted[uid] and not is_excluded
        running = self._running_pods.setdefault(unit, set())
        (running.add if runs else running.discard)(metadata["name"])
        if not running:
            del self._running_pods[unit]

    def _is_admitted(self, places: Iterable[Place]) -> bool:
        return any(self.standings[each].is_admitted for each in places if each in self.standings)

    def _find(self, rule: str, subject: str, text: str) -> None:
        if self._observed:
            self.findings.append(Finding(rule, subject, text, self._at_s, self._revision))


def read_standing(obj: Object) -> WorkloadStanding:
    status = obj.get("status") or {}
    told, admission = status.get("conditions"), status.get("admission")
    is_finished = conditions.is_true(told, "Finished")
    holds = admission is not None and conditions.is_true(told, "QuotaReserved") and not is_finished
    reserved = parse_time(str((conditions.find(told, "QuotaReserved") or {}).get("lastTransitionTime") or ""))
    return WorkloadStanding(
        obj["metadata"]["uid"],
        str((controller_of(obj) or {}).get("uid", "")),
        str((admission or {}).get("clusterQueue", "")) if holds else "",
        usage_of(obj) if holds else {},
        msgspec.json.encode(admission, order="sorted").decode() if holds else "",
        conditions.is_true(told, "Admitted"),
        conditions.is_true(told, "Evicted"),
        is_finished,
        float(reserved) if holds and isinstance(reserved, int) else 0.0,
    )


def _is_running(job: Object) -> bool:
    """Whether it runs and needs an admission. A job that an uninstallation released needs none."""
    is_managed = QUEUE_NAME in (job["metadata"].get("labels") or {})
    told = (job.get("status") or {}).get("conditions")
    is_over = any(conditions.is_true(told, each) for each in ("Complete", "Failed"))
    is_stopped = is_over or job["spec"].get("suspend") or _is_leaving(job)
    return is_managed and not is_stopped and not is_released(job)


def _is_leaving(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
