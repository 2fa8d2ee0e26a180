"""Mutation operators over histories: drop, duplicate, reorder and alter changes, one kind of harm each.

An operator returns a mutated history, or None if the history has no place for it. Whether the result is harmful is
decided by ``slow_judge.py``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from headgate.capacity.names import GATE, STAMP
from headgate.jobs.names import ADMISSION_GATE, MANAGED
from headgate.jobs.names import QUEUE_NAME as LOCAL_QUEUE
from headgate.recording.changes import RecordedChange
from unit.audit.drawn_histories import (
    FOREIGN,
    KUEUE,
    QUEUE_KIND,
    gates,
    has_ended,
    is_leaving,
    is_true,
    mark,
    reason,
    release,
    reserved_queue,
    set_condition,
    set_gates,
    terminate,
)
from unit.audit.slow_judge import Step, steps_of

Object = dict[str, Any]
History = list[RecordedChange]
Edit = Callable[[Object], Any]
Where = Callable[[Step], bool]
WORKLOADS = f"workloads.{KUEUE}"
CLUSTER_QUEUES = f"clusterqueues.{KUEUE}"
TAIL_S = 4 * 3600.0


class Harm(NamedTuple):
    rule: str
    mutate: Callable[[History, random.Random], History | None]


# -- operators ---------------------------------------------------------------------------------------------------------


def renumbered(history: History) -> History:
    """The order of the list is the order of revisions."""
    found, now_s = [], 0.0
    for revision, each in enumerate(history, 101):
        now_s = max(now_s, each.at_s)
        obj = json.loads(json.dumps(each.object))
        obj["metadata"]["resourceVersion"] = str(revision)
        found.append(msgspec.structs.replace(each, object=obj, at_s=now_s, revision=revision))
    return found


def with_tail(history: History) -> History:
    """Much later, something that concerns nobody happens."""
    last = history[-1]
    revision = last.revision + 1
    namespace = {"metadata": {"name": "later", "uid": "uid-later", "resourceVersion": str(revision)}}
    return [*history, RecordedChange("namespaces", namespace, last.at_s + TAIL_S, revision)]


def altered(change: RecordedChange, edit: Edit) -> RecordedChange:
    obj = json.loads(json.dumps(change.object))
    edit(obj)
    return msgspec.structs.replace(change, object=obj)


def pick(history: History, chance: random.Random, where: Where) -> int | None:
    found = [index for index, step in enumerate(steps_of(history)) if where(step)]
    return chance.choice(found) if found else None


def alter(where: Where, edit: Edit, *, lasting: bool = False) -> Callable[[History, random.Random], History | None]:
    """Alters one state; ``lasting``: and all later states of the object."""

    def mutate(history: History, chance: random.Random) -> History | None:
        index = pick(history, chance, where)
        if index is None:
            return None
        key = history[index].resource, history[index].key
        return [
            altered(each, edit)
            if number == index or (lasting and number > index and (each.resource, each.key) == key)
            else each
            for number, each in enumerate(history)
        ]

    return mutate


def drop(where: Where, *, lasting: bool = False) -> Callable[[History, random.Random], History | None]:
    """Drops one change; ``lasting``: and all later changes of the object."""

    def mutate(history: History, chance: random.Random) -> History | None:
        index = pick(history, chance, where)
        if index is None:
            return None
        key = history[index].resource, history[index].key
        later = {number for number, each in enumerate(history) if number > index and (each.resource, each.key) == key}
        return [each for number, each in enumerate(history) if number != index and not (lasting and number in later)]

    return mutate


def advance(where: Where, before: Callable[[Step, Step], bool]) -> Callable[[History, random.Random], History | None]:
    """Moves a change to a place before an earlier one."""

    def mutate(history: History, chance: random.Random) -> History | None:
        index = pick(history, chance, where)
        if index is None:
            return None
        steps = steps_of(history)
        places = [number for number in range(index) if before(steps[number], steps[index])]
        if not places:
            return None
        moved = list(history)
        change = moved.pop(index)
        place = chance.choice(places)
        moved.insert(place, msgspec.structs.replace(change, at_s=history[place].at_s))
        return moved

    return mutate


def insert(where: Where, edit: Edit, *, and_back: bool = False) -> Callable[[History, random.Random], History | None]:
    """After a change, another state of the same object; ``and_back``: then the state before again."""

    def mutate(history: History, chance: random.Random) -> History | None:
        index = pick(history, chance, where)
        if index is None:
            return None
        change = history[index]
        added = [altered(change, edit), *([change] if and_back else [])]
        return [*history[: index + 1], *added, *history[index + 1 :]]

    return mutate


# -- places ------------------------------------------------------------------------------------------------------------


def is_pod(step: Step) -> bool:
    return step.change.resource == "pods" and step.new is not None


def is_lift(step: Step) -> bool:
    """The queue gate is removed."""
    return is_pod(step) and step.old is not None and GATE in gates(step.old) and GATE not in gates(step.change.object)


def is_foreign_lift(step: Step) -> bool:
    return is_pod(step) and step.old is not None and FOREIGN in gates(step.old) and step.change.object != step.old


def has_promise(step: Step) -> bool:
    return is_pod(step) and STAMP in step.change.object["metadata"].get("annotations", {})


def is_after_lift(step: Step) -> bool:
    """A later state of a pod with a promise."""
    is_active = has_promise(step) and not is_leaving(step.change.object) and not has_ended(step.change.object)
    return is_active and step.old is not None and STAMP in step.old["metadata"]["annotations"]


def is_unplaced_after_lift(step: Step) -> bool:
    return is_after_lift(step) and not step.change.object["spec"].get("nodeName")


def is_placed(step: Step) -> bool:
    return is_pod(step) and bool(step.change.object["spec"].get("nodeName")) and not has_ended(step.change.object)


def is_bind(step: Step) -> bool:
    return is_placed(step) and step.old is not None and not step.old["spec"].get("nodeName")


def is_new_pod(step: Step) -> bool:
    return is_pod(step) and step.old is None and GATE in gates(step.change.object)


def is_release(step: Step) -> bool:
    """A pod of a Volcano-style queue ends or begins to terminate."""
    obj = step.change.object
    was = step.old is not None and STAMP in step.old["metadata"].get("annotations", {})
    return step.change.resource == "pods" and was and (has_ended(obj) or is_leaving(obj)) and not step.change.deleted


def is_queue(name: str) -> Where:
    return lambda step: step.change.resource == QUEUE_KIND and step.change.key[1] == name and step.old is None


def is_workload(step: Step) -> bool:
    return step.change.resource == WORKLOADS and step.new is not None


def is_admission(step: Step) -> bool:
    is_reserved = is_workload(step) and bool(reserved_queue(step.change.object))
    return is_reserved and step.old is not None and not reserved_queue(step.old)


def is_first_admission(step: Step) -> bool:
    return is_admission(step) and step.old is not None and not step.old["status"].get("conditions")


def is_finish(step: Step) -> bool:
    return is_workload(step) and is_true(step.change.object, "Finished")


def is_kueue_pod(step: Step) -> bool:
    return is_pod(step) and MANAGED in step.change.object["metadata"].get("labels", {})


def is_kueue_lift(step: Step) -> bool:
    was = is_kueue_pod(step) and step.old is not None and ADMISSION_GATE in gates(step.old)
    return was and not gates(step.change.object)


def is_job_start(step: Step) -> bool:
    is_job = step.change.resource == "jobs.batch" and step.old is not None
    return is_job and not step.change.object["spec"]["suspend"] and bool(step.old and step.old["spec"]["suspend"])


def is_job_stop(step: Step) -> bool:
    is_job = step.change.resource == "jobs.batch" and step.old is not None
    return is_job and bool(step.change.object["spec"]["suspend"])


def is_quota(name: str, kind: str = CLUSTER_QUEUES) -> Where:
    return lambda step: step.change.resource == kind and step.change.key[1] == name


def has_same_owner(one: Step, other: Step) -> bool:
    """Whether one is the admission of the Workload of the other object."""
    if not is_admission(one):
        return False
    return bool(one.change.object["metadata"]["ownerReferences"][0]["uid"] == other.change.uid)


# -- edits -------------------------------------------------------------------------------------------------------------


def edit_stamp(**fields: Any) -> Edit:
    def edit(pod: Object) -> None:
        found = json.loads(pod["metadata"]["annotations"][STAMP])
        pod["metadata"]["annotations"][STAMP] = json.dumps({**found, **fields})

    return edit


def drop_stamp(pod: Object) -> None:
    pod["metadata"]["annotations"].pop(STAMP, None)


def lift_with(*left: str) -> Edit:
    def edit(pod: Object) -> None:
        stamp = {"uid": pod["metadata"]["uid"], "queue": "solo", "requests": {"cpu": "2"}}
        pod["metadata"]["annotations"][STAMP] = json.dumps({**stamp, "at": "2030-01-01T00:00:00.000000Z"})
        set_gates(pod, list(left))

    return edit


def grow(pod: Object) -> None:
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "50"
    if STAMP in pod["metadata"].get("annotations", {}):
        edit_stamp(requests={"cpu": "50"})(pod)


def quota_row(**fields: str) -> Edit:
    return lambda obj: obj["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0].update(fields)


def limit(cpus: str) -> Edit:
    return lambda obj: obj["spec"].update(capability={"cpu": cpus})


def enlarge(workload: Object) -> None:
    workload["spec"]["podSets"][0]["count"] = 40
    if "admission" in workload["status"]:
        workload["status"]["admission"]["podSetAssignments"][0].update(count=40, resourceUsage={"cpu": "40"})


def end_with_finalizer(pod: Object) -> None:
    pod["metadata"]["finalizers"] = [MANAGED]
    terminate(pod, 0.0)


def set_node(name: str | None) -> Edit:
    return lambda pod: pod["spec"].update(nodeName=name or "")


def two_holders(history: History, chance: random.Random) -> History | None:
    index = pick(history, chance, is_admission)
    if index is None:
        return None

    def edit(obj: Object) -> None:
        obj["metadata"].update(name=f"{obj['metadata']['name']}-again", uid="uid-again")

    return [*history[: index + 1], altered(history[index], edit), *history[index + 1 :]]


def granted_to_a_waiting_pod(history: History, chance: random.Random) -> History | None:
    """At the end, all pods that wait are granted what they ask for."""
    waiting = [step.change for step in steps_of(history) if is_pod(step) and gates(step.change.object) == [GATE]]
    last = {each.uid: each for each in history if each.resource == "pods"}
    rest = [each for each in waiting if last[each.uid] is each and not is_leaving(each.object)]
    if not rest:
        return None

    def grant(pod: Object) -> None:
        amounts = pod["spec"]["containers"][0]["resources"]["requests"]
        fields = {
            "uid": pod["metadata"]["uid"],
            "queue": pod["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"],
        }
        stamp = {**fields, "requests": amounts, "at": "2030-01-01T00:00:00.000000Z"}
        pod["metadata"]["annotations"][STAMP] = json.dumps(stamp)
        set_gates(pod, [])

    return [*history, *(msgspec.structs.replace(altered(each, grant), at_s=history[-1].at_s + 60) for each in rest)]


def admit_again(history: History, chance: random.Random) -> History | None:
    index = pick(history, chance, is_admission)
    if index is None:
        return None
    change = history[index]

    def withdraw(obj: Object) -> None:
        release(obj, change.at_s)
        obj["status"]["conditions"] = [each for each in obj["status"]["conditions"] if each["type"] != "Evicted"]

    return [*history[: index + 1], altered(change, withdraw), change, *history[index + 1 :]]


def withdraw_from_a_running_pod(history: History, chance: random.Random) -> History | None:
    index = pick(history, chance, is_kueue_lift)
    if index is None:
        return None
    name = f"wl-{history[index].key[1]}"
    workload = next(each for each in reversed(history[:index]) if each.key[1] == name)
    withdrawn = msgspec.structs.replace(altered(workload, lambda obj: release(obj, 0.0)), at_s=history[index].at_s)
    return [*history[: index + 1], withdrawn, *history[index + 1 :]]


def keep_the_queue_gate(history: History, chance: random.Random) -> History | None:
    """The pod stays as it is then."""
    index = pick(history, chance, is_lift)
    if index is None:
        return None
    kept = altered(history[index], lambda pod: set_gates(pod, [GATE]))
    later = [each for each in history[index + 1 :] if each.uid != kept.uid]
    return [*history[:index], kept, *later]


HARMS: dict[str, Harm] = {
    "alter: the gate goes, and no stamp comes": Harm(
        "gate-lifted-without-promise", alter(is_lift, drop_stamp, lasting=True)
    ),
    "alter: the stamp names another pod": Harm(
        "stamp-of-another-pod", alter(is_lift, edit_stamp(uid="uid-other"), lasting=True)
    ),
    "duplicate: the gate comes back and goes again": Harm(
        "gate-lifted-twice", insert(is_lift, lambda pod: set_gates(pod, [GATE]), and_back=True)
    ),
    "alter: a gate appears on a pod that runs": Harm(
        "gate-added", alter(is_placed, lambda pod: set_gates(pod, ["x/y"]))
    ),
    "alter: the queue gate goes before the other one": Harm(
        "gate-lifted-early", alter(is_foreign_lift, lift_with(FOREIGN))
    ),
    "alter: both gates go at once": Harm("foreign-gate-removed", alter(is_foreign_lift, lift_with())),
    "alter: the promise names another queue later": Harm(
        "promise-changed", alter(is_after_lift, edit_stamp(queue="team"))
    ),
    "alter: the promise is another amount later": Harm(
        "promise-changed", alter(is_after_lift, edit_stamp(requests={"cpu": "3"}))
    ),
    "alter: the promise has another time later": Harm(
        "promise-changed", alter(is_after_lift, edit_stamp(at="2031-01-01T00:00:00.000000Z"))
    ),
    "alter: the promise is less than the pod requests": Harm(
        "promise-mismatch", alter(is_lift, edit_stamp(requests={"cpu": "0"}), lasting=True)
    ),
    "alter: the promise is taken from a pod that waits for a node": Harm(
        "promise-lost", alter(is_unplaced_after_lift, drop_stamp, lasting=True)
    ),
    "alter: the promise is taken from a pod that runs": Harm(
        "promise-lost", alter(lambda step: is_after_lift(step) and is_placed(step), drop_stamp)
    ),
    "alter: a gated pod is Unschedulable": Harm(
        "unschedulable-behind-gate", alter(is_new_pod, lambda pod: mark(pod, 0.0))
    ),
    "alter: a pod that terminating pods make room for is Unschedulable": Harm(
        "unschedulable-while-terminating",
        alter(
            lambda step: is_pod(step) and reason(step.change.object) == "WaitingForTerminatingPods",
            lambda pod: mark(pod, 0.0),
        ),
    ),
    "alter: the limit of a leaf is lower": Harm("over-admission", alter(is_queue("solo"), limit("1"), lasting=True)),
    "alter: the limit of the queue above is lower": Harm(
        "over-admission", alter(is_queue("team"), limit("2"), lasting=True)
    ),
    "alter: the root has a limit": Harm("over-admission", alter(is_queue("root"), limit("3"), lasting=True)),
    "alter: a pod is larger": Harm("over-admission", alter(is_new_pod, grow, lasting=True)),
    "drop: a pod does not end": Harm("over-admission", drop(is_release, lasting=True)),
    "reorder: a grant comes before the release that it needs": Harm(
        "over-admission", advance(is_lift, lambda one, other: is_release(one))
    ),
    "duplicate: capacity is granted again": Harm("over-admission", granted_to_a_waiting_pod),
    "alter: a pod moves to another node": Harm("node-changed", insert(is_bind, set_node("node-x"))),
    "alter: a pod loses its node": Harm("node-changed", insert(is_bind, set_node(None))),
    "alter: a node is smaller": Harm(
        "node-overcommitted",
        alter(
            lambda step: step.change.resource == "nodes",
            lambda node: node["status"].update(allocatable={"cpu": "1", "pods": "110"}),
        ),
    ),
    "alter: a pod is bound with a gate": Harm("bound-with-gate", alter(is_bind, lambda pod: set_gates(pod, [GATE]))),
    "drop: a pod stays on its node": Harm("node-overcommitted", drop(is_release, lasting=True)),
    "alter: the quota of a ClusterQueue is lower": Harm(
        "over-admission", alter(is_quota("cq-solo"), quota_row(nominalQuota="1"))
    ),
    "alter: a borrowing limit is lower": Harm("over-admission", alter(is_quota("cq-a"), quota_row(borrowingLimit="0"))),
    "alter: a lending limit is lower": Harm("over-admission", alter(is_quota("cq-b"), quota_row(lendingLimit="0"))),
    "alter: a cohort has less": Harm(
        "over-admission", alter(is_quota("top", f"cohorts.{KUEUE}"), quota_row(nominalQuota="0"))
    ),
    "alter: a Workload is larger": Harm(
        "over-admission", alter(lambda step: is_workload(step) and step.old is None, enlarge, lasting=True)
    ),
    "drop: a Workload does not finish": Harm("over-admission", drop(is_finish, lasting=True)),
    "alter: the admission of a Workload changes": Harm(
        "promise-changed",
        insert(is_admission, lambda obj: obj["status"]["admission"].update(clusterQueue="cq-other")),
    ),
    "duplicate: a Workload is admitted twice": Harm("admitted-twice", admit_again),
    "duplicate: an owner has two Workloads": Harm("two-holders", two_holders),
    "alter: a finished Workload is unfinished": Harm(
        "finished-again", insert(is_finish, lambda obj: set_condition(obj, "Finished", "False", 0.0))
    ),
    "reorder: a job starts before it is admitted": Harm(
        "runs-without-admission", advance(is_job_start, has_same_owner)
    ),
    "drop: a job is not stopped at its eviction": Harm("runs-without-admission", drop(is_job_stop)),
    "alter: a Workload loses its admission while its pod runs": Harm(
        "runs-without-admission",
        withdraw_from_a_running_pod,
    ),
    "reorder: the gate of a pod goes before it is admitted": Harm(
        "gate-lifted-before-admission", advance(is_kueue_lift, has_same_owner)
    ),
    "duplicate: the gate of a pod in Kueue's queue goes twice": Harm(
        "gate-lifted-twice", insert(is_kueue_lift, lambda pod: set_gates(pod, [ADMISSION_GATE]), and_back=True)
    ),
    "drop: the gate of an admitted pod stays": Harm("gate-not-lifted", drop(is_kueue_lift, lasting=True)),
    "alter: the queue gate stays beside the promise": Harm("gate-not-lifted", keep_the_queue_gate),
    "alter: a gated pod leaves its queue": Harm(
        "orphaned-gate",
        alter(
            lambda step: is_kueue_pod(step) and ADMISSION_GATE in gates(step.change.object),
            lambda pod: [pod["metadata"]["labels"].pop(each, None) for each in (MANAGED, LOCAL_QUEUE)],
            lasting=True,
        ),
    ),
    "alter: a finalizer stays": Harm(
        "orphaned-finalizer",
        alter(lambda step: is_kueue_pod(step) and has_ended(step.change.object), end_with_finalizer, lasting=True),
    ),
    "drop: the quota of a job that has ended stays": Harm("quota-leaked", drop(is_finish, lasting=True)),
    "drop: a pod is not admitted, and later ones are": Harm("starved", drop(is_lift, lasting=True)),
    "drop: a Workload is not admitted, and later ones are": Harm("starved", drop(is_first_admission, lasting=True)),
}
