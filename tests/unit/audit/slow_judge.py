"""A slow, independent checker of histories (oracle): every rule in its own words, over whole snapshots, with no regard
to cost.

It shares no code with ``headgate.audit``. It exists to confirm that a mutated history is harmful.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from headgate.capacity.names import GATE, OPT_IN, STAMP
from headgate.jobs.names import ADMISSION_GATE, MANAGED
from headgate.jobs.names import QUEUE_NAME as LOCAL_QUEUE
from headgate.kube.timestamps import format_time
from headgate.recording.changes import RecordedChange
from unit.audit.drawn_histories import (
    KUEUE,
    QUEUE_KIND,
    cpu,
    exceeds_quota,
    gates,
    has_ended,
    is_leaving,
    is_true,
    queue_name,
    reason,
    reserved_queue,
)

Object = dict[str, Any]
Objects = dict[tuple[str, str], Object]
OURS = (GATE, ADMISSION_GATE)


class Step(NamedTuple):
    change: RecordedChange
    before: Objects
    after: Objects

    @property
    def old(self) -> Object | None:
        return self.before.get((self.change.resource, self.change.key[1]))

    @property
    def new(self) -> Object | None:
        return self.after.get((self.change.resource, self.change.key[1]))


def steps_of(changes: Sequence[RecordedChange]) -> list[Step]:
    found, objects = [], Objects()
    for change in changes:
        before, objects = objects, dict(objects)
        key = change.resource, change.key[1]
        if change.deleted:
            objects.pop(key, None)
        else:
            objects[key] = change.object
        found.append(Step(change, before, objects))
    return found


def broken_rules(changes: Sequence[RecordedChange], stuck_s: float, starved_s: float) -> set[str]:
    steps = steps_of(changes)
    found = {rule for step in steps for rule in _of_step(step)}
    found |= set(_of_counts(steps))
    found |= set(_of_durations(steps, stuck_s))
    if _has_starved(steps, starved_s):
        found.add("starved")
    return found


# -- one step ----------------------------------------------------------------------------------------------------------


def _of_step(step: Step) -> Iterator[str]:
    old, new, resource = step.old, step.new, step.change.resource
    if new is None:
        return
    if resource == "pods":
        yield from _of_pod(step, old, new)
    elif resource == f"workloads.{KUEUE}":
        yield from _of_workload(step, old, new)
    elif resource == "jobs.batch" and _runs(new) and not _is_admitted(step.after, new["metadata"]["uid"]):
        yield "runs-without-admission"


def _of_pod(step: Step, old: Object | None, new: Object) -> Iterator[str]:
    text = new["metadata"].get("annotations", {}).get(STAMP)
    if text and json.loads(text)["uid"] != new["metadata"]["uid"]:
        yield "stamp-of-another-pod"
    if new["spec"].get("nodeName") and gates(new):
        yield "bound-with-gate"
    if gates(new) and reason(new) == "Unschedulable" and not is_leaving(new):
        yield "unschedulable-behind-gate"
    if _amount(new) and (old is None or _amount(new) > _amount(old)) and _is_over(step.after, _queue(new)):
        yield "over-admission"
    if old is None:
        return
    if set(gates(new)) - set(gates(old)):
        yield "gate-added"
    yield from _of_lifting(step, old, new)
    yield from _of_promise(step, old, new)
    if old["spec"].get("nodeName") and old["spec"]["nodeName"] != new["spec"].get("nodeName"):
        yield "node-changed"
    if new["spec"].get("nodeName") and not old["spec"].get("nodeName") and _node_is_over(step.after, new):
        yield "node-overcommitted"
    is_marked = reason(new) == "Unschedulable" != reason(old) and not gates(new) and _promise(new) is not None
    if is_marked and _fits_after_terminations(step, new):
        yield "unschedulable-while-terminating"


def _of_lifting(step: Step, old: Object, new: Object) -> Iterator[str]:
    if GATE in gates(old) and GATE not in gates(new):
        if _promise(new) is None and new["metadata"]["annotations"].get(OPT_IN) == "true":
            yield "gate-lifted-without-promise"
        others_before, others = ([each for each in gates(pod) if each not in OURS] for pod in (old, new))
        if others:
            yield "gate-lifted-early"
        if others_before and others_before != others:
            yield "foreign-gate-removed"
    is_lifted = ADMISSION_GATE in gates(old) and ADMISSION_GATE not in gates(new)
    if is_lifted and not _is_admitted(step.after, new["metadata"]["uid"]):
        yield "gate-lifted-before-admission"


def _of_promise(step: Step, old: Object, new: Object) -> Iterator[str]:
    before, now = _promise(old), _promise(new)
    if now is not None and now != before and int(now["requests"]["cpu"]) < cpu(new):
        yield "promise-mismatch"
    if before is not None and now is not None and now != before:
        yield "promise-changed"
    is_removed = STAMP not in new["metadata"].get("annotations", {})
    if before is not None and is_removed and not is_leaving(new) and not has_ended(new):
        is_preempted = any(
            pod["spec"].get("priority", 0) > new["spec"].get("priority", 0)
            and not pod["spec"].get("nodeName")
            and not is_leaving(pod)
            and not has_ended(pod)
            and pod["spec"]["schedulerName"] == "headgate"
            for pod in _all(step.after, "pods")
        )
        if new["spec"].get("nodeName") or not (is_preempted or _is_over(step.before, before["queue"])):
            yield "promise-lost"


def _of_workload(step: Step, old: Object | None, new: Object) -> Iterator[str]:
    old_queue = reserved_queue(old) if old is not None else ""
    if reserved_queue(new) and not old_queue and _quota_is_over(step.after):
        yield "over-admission"
    is_kept = old is not None and old_queue and reserved_queue(new)
    if is_kept and old and old["status"]["admission"] != new["status"]["admission"]:
        yield "promise-changed"
    if old is not None and is_true(old, "Finished") and not is_true(new, "Finished"):
        yield "finished-again"
    owner = new["metadata"]["ownerReferences"][0]["uid"]
    holders = [each for each in _workloads_of(step.after, owner) if reserved_queue(each)]
    if len(holders) > 1:
        yield "two-holders"
    if old is not None and is_true(old, "Admitted") and not is_true(new, "Admitted") and not is_true(new, "Finished"):
        runs = [job for job in _all(step.after, "jobs.batch") if job["metadata"]["uid"] == owner and _runs(job)]
        pods = [pod for pod in _all(step.after, "pods") if pod["metadata"]["uid"] == owner]
        if runs or any(not gates(pod) and not is_leaving(pod) and not has_ended(pod) for pod in pods):
            yield "runs-without-admission"


# -- the whole history -------------------------------------------------------------------------------------------------


def _of_counts(steps: Sequence[Step]) -> Iterator[str]:
    lifts: dict[tuple[str, str], int] = {}
    admitted: dict[str, bool] = {}
    for step in steps:
        old, new = step.old, step.new
        if old is None or new is None:
            continue
        if step.change.resource == "pods":
            for gate in set(gates(old)) - set(gates(new)):
                key = new["metadata"]["uid"], gate
                lifts[key] = lifts.get(key, 0) + 1
                if lifts[key] > 1 and gate in OURS:
                    yield "gate-lifted-twice"
        elif step.change.resource == f"workloads.{KUEUE}":
            uid = new["metadata"]["uid"]
            if is_true(new, "Evicted"):
                admitted.pop(uid, None)
            if is_true(new, "Admitted") and not is_true(old, "Admitted"):
                if admitted.get(uid):
                    yield "admitted-twice"
                admitted[uid] = True


def _of_durations(steps: Sequence[Step], stuck_s: float) -> Iterator[str]:
    since: dict[tuple[str, str], float] = {}
    for step in steps:
        now = set(_lasting(step.after))
        for key in set(since) - now:
            del since[key]
        for key in now:
            since.setdefault(key, step.change.at_s)
            if step.change.at_s - since[key] >= stuck_s:
                yield key[0]


def _lasting(objects: Objects) -> Iterator[tuple[str, str]]:
    for pod in _all(objects, "pods"):
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        waits = not is_leaving(pod) and not has_ended(pod) and not pod["spec"].get("nodeName")
        labels = pod["metadata"].get("labels", {})
        if waits and ADMISSION_GATE in gates(pod):
            if MANAGED not in labels and LOCAL_QUEUE not in labels:
                yield "orphaned-gate", name
            if _is_admitted(objects, uid):
                yield "gate-not-lifted", name
        if waits and GATE in gates(pod) and _promise(pod) is not None:
            yield "gate-not-lifted", name
        is_left = is_leaving(pod) and has_ended(pod) and MANAGED in pod["metadata"].get("finalizers", ())
        if is_left and not any(map(reserved_queue, _workloads_of(objects, uid))):
            yield "orphaned-finalizer", name
    for workload in _all(objects, f"workloads.{KUEUE}"):
        owner = workload["metadata"]["ownerReferences"][0]["uid"]
        pods = [pod for pod in _all(objects, "pods") if pod["metadata"]["uid"] == owner and not has_ended(pod)]
        jobs = [job for job in _all(objects, "jobs.batch") if job["metadata"]["uid"] == owner]
        if reserved_queue(workload) and not pods and all(is_true(job, "Complete") for job in jobs):
            yield "quota-leaked", workload["metadata"]["name"]


def _has_starved(steps: Sequence[Step], starved_s: float) -> bool:
    """Whether a unit waited, was passed by an equal or larger one that is later, and waited on for so long."""
    end_s = steps[-1].change.at_s
    for step in steps:
        old, new = step.old, step.new
        if old is None or new is None or step.change.resource not in ("pods", f"workloads.{KUEUE}"):
            continue
        is_grant = _waits(old) and not _waits(new) and (_promise(new) is not None or reserved_queue_of(new))
        if not is_grant:
            continue
        for key, other in step.after.items():
            if key[0] != step.change.resource or not _waits(other) or not _is_before(other, new):
                continue
            first = next(each for each in steps if each.after.get(key) is not None and _waits(each.after[key]))
            left = (
                each.change.at_s
                for each in steps
                if each.change.at_s >= step.change.at_s and not (key in each.after and _waits(each.after[key]))
            )
            if first.change.at_s + 5 <= step.change.at_s and next(left, end_s) - step.change.at_s >= starved_s:
                return True
    return False


def reserved_queue_of(obj: Object) -> str:
    return reserved_queue(obj) if "podSets" in obj["spec"] else ""


def _waits(obj: Object) -> bool:
    if "podSets" in obj["spec"]:
        told = {each["type"] for each in obj["status"].get("conditions", [])}
        return not told  # never evicted, never admitted
    return gates(obj) == [GATE] and _promise(obj) is None and not is_leaving(obj)


def _is_before(other: Object, new: Object) -> bool:
    created = other["metadata"]["creationTimestamp"] < new["metadata"]["creationTimestamp"]
    is_important = other["spec"].get("priority", 0) >= new["spec"].get("priority", 0)
    if "podSets" in new["spec"]:
        is_same = other["spec"]["podSets"] == new["spec"]["podSets"]
        return bool(created and is_important and is_same and other["spec"]["queueName"] == new["spec"]["queueName"])
    return bool(created and is_important and cpu(other) <= cpu(new) and queue_name(other) == queue_name(new))


# -- sums --------------------------------------------------------------------------------------------------------------


def _all(objects: Objects, resource: str) -> list[Object]:
    return [obj for (kind, _), obj in objects.items() if kind == resource]


def _promise(pod: Object) -> Object | None:
    text = pod["metadata"].get("annotations", {}).get(STAMP)
    found: Object | None = json.loads(text) if text else None
    return found if found is not None and found["uid"] == pod["metadata"]["uid"] else None


def _queue(pod: Object) -> str:
    promise = _promise(pod)
    return queue_name(pod) if promise is None else str(promise["queue"])


def _amount(pod: Object) -> int:
    """What the pod holds of its queue."""
    if is_leaving(pod) or has_ended(pod) or not queue_name(pod):
        return 0
    promise = _promise(pod)
    if promise is not None:
        return int(promise["requests"]["cpu"])
    return cpu(pod) if pod["spec"].get("nodeName") else 0


def _is_over(objects: Objects, queue: str) -> bool:
    """Whether the queue or an ancestor uses more than its limit."""
    parents = {obj["metadata"]["name"]: obj["spec"].get("parent", "") for obj in _all(objects, QUEUE_KIND)}

    def ancestors(name: str) -> list[str]:
        return [name, *ancestors(parents[name])] if name in parents else []

    for each in ancestors(queue):
        limit = objects[QUEUE_KIND, each]["spec"].get("capability", {}).get("cpu")
        used = sum(_amount(pod) for pod in _all(objects, "pods") if each in ancestors(_queue(pod)))
        if limit is not None and used > int(limit):
            return True
    return False


def _quota_is_over(objects: Objects) -> bool:
    used: dict[str, int] = {}
    for workload in _all(objects, f"workloads.{KUEUE}"):
        if reserved_queue(workload):
            count = workload["status"]["admission"]["podSetAssignments"][0]["count"]
            used[reserved_queue(workload)] = used.get(reserved_queue(workload), 0) + count

    def row(obj: Object, name: str) -> int | None:
        resources = obj["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
        return int(resources[name]) if name in resources else None

    queues = {
        obj["metadata"]["name"]: (
            obj["spec"].get("cohortName", ""),
            row(obj, "nominalQuota"),
            row(obj, "borrowingLimit"),
            row(obj, "lendingLimit"),
        )
        for obj in _all(objects, f"clusterqueues.{KUEUE}")
    }
    cohorts = {
        obj["metadata"]["name"]: (obj["spec"].get("parentName", ""), row(obj, "nominalQuota"))
        for obj in _all(objects, f"cohorts.{KUEUE}")
    }
    return exceeds_quota(used, queues, cohorts)


def _node_is_over(objects: Objects, pod: Object) -> bool:
    node = objects.get(("nodes", pod["spec"]["nodeName"]))
    there = [each for each in _all(objects, "pods") if each["spec"].get("nodeName") == pod["spec"]["nodeName"]]
    used = sum(cpu(each) for each in there if not has_ended(each))
    return node is not None and used > int(node["status"]["allocatable"]["cpu"])


def _fits_after_terminations(step: Step, pod: Object) -> bool:
    for node in _all(step.after, "nodes"):
        name = node["metadata"]["name"]
        there = [each for each in _all(step.after, "pods") if each["spec"].get("nodeName") == name]
        there = [each for each in there if not has_ended(each)]
        nominated = [
            each
            for each in _all(step.after, "pods")
            if each["status"].get("nominatedNodeName") == name and each["metadata"]["uid"] != pod["metadata"]["uid"]
        ]
        staying = [each for each in there if not _leaves_in_time(each, step.change.at_s)]
        free = int(node["status"]["allocatable"]["cpu"]) - sum(map(cpu, [*staying, *nominated]))
        if len(staying) < len(there) and cpu(pod) <= free:
            return True
    return False


def _leaves_in_time(pod: Object, at_s: float) -> bool:
    """Nothing waits for a terminating pod that is overdue."""
    return is_leaving(pod) and pod["metadata"]["deletionTimestamp"] >= format_time(at_s)


def _workloads_of(objects: Objects, owner: str) -> list[Object]:
    found = _all(objects, f"workloads.{KUEUE}")
    return [each for each in found if each["metadata"]["ownerReferences"][0]["uid"] == owner]


def _is_admitted(objects: Objects, owner: str) -> bool:
    return any(is_true(each, "Admitted") for each in _workloads_of(objects, owner))


def _runs(job: Object) -> bool:
    return not job["spec"]["suspend"] and not is_true(job, "Complete") and not is_leaving(job)
