"""Writes of objects for Kueue's queues and the expected answers, the same on every server.

A case creates an object and may change it; the last write is the one that is checked. ``refusal`` is the end of the
error message and is empty if the write is accepted. The feature gate SchedulingGatedBy is on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from queued_objects import (
    ADMISSION_GATED,
    GROUP,
    GROUP_NAME,
    MANAGED,
    PRIORITY,
    QUEUE,
    RETRIABLE,
    SCHEDULING_GATED,
    TOTAL,
    queued,
)

Wire = dict[str, Any]
KINDS = ("Job", "Pod", "Deployment", "ReplicaSet", "StatefulSet")
JOB_LIKE = ("Job", "Pod")
TEMPLATED = ("Deployment", "ReplicaSet", "StatefulSet")

AT_SCHEDULING = f"metadata.annotations[{SCHEDULING_GATED}]"
AT_ADMISSION = f"metadata.annotations[{ADMISSION_GATED}]"
AT_QUEUE = f"metadata.labels[{QUEUE}]"
AT_PRIORITY = f"metadata.labels[{PRIORITY}]"
TIME = f"{GROUP}/max-exec-time-seconds"
AT_TIME = f"metadata.labels[{TIME}]"
PREBUILT = f"{GROUP}/prebuilt-workload-name"
LEAST = f"{GROUP}/job-min-parallelism"
SYNC = f"{GROUP}/job-completions-equal-parallelism"
PATH = 'must be a domain-prefixed path (such as "acme.io/foo")'
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
HINT = "takes one name; a list belongs in kueue.x-k8s.io/admission-gated-by"
EMPTY = "name the controller that gates the job, such as example.com/mygate, or leave the annotation out"
NO_NUMBER = 'strconv.Atoi: parsing "x": invalid syntax'
RUNNING: dict[str, Wire] = {
    "Job": {"spec": {"suspend": False}},
    "Pod": {"spec": {"schedulingGates": None}},
}


@dataclass(frozen=True)
class DoorCase:
    name: str
    kind: str
    body: Wire
    changes: tuple[tuple[str, Wire], ...] = ()
    refusal: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


def new(kind: str, name: str, refusal: str = "", **more: Any) -> DoorCase:
    return DoorCase(name, kind, queued(kind, **more), (), refusal)


def changed(kind: str, name: str, change: Wire, refusal: str = "", **more: Any) -> DoorCase:
    return DoorCase(name, kind, queued(kind, **more), (("", change),), refusal)


def noted(value: str | None, key: str) -> Wire:
    return {"metadata": {"annotations": {key: value}}}


def labelled(key: str, value: str | None) -> Wire:
    return {"metadata": {"labels": {key: value}}}


def with_(change: Wire, other: Wire) -> Wire:
    return {**change, **other}


def wrong(path: str, value: Any, text: str) -> str:
    written = f'"{value}"' if isinstance(value, str) else value
    return f"{path}: Invalid value: {written}: {text}"


def scheduling_gates(kind: str) -> Iterator[DoorCase]:
    """KEP-6915: one name, set at creation, only ever taken off."""
    longest = "example.com/" + "x" * 51
    for value in ("example.com/mygate", longest):
        yield new(kind, f"a gate of {len(value)} characters", annotations={SCHEDULING_GATED: value})
    for name, value, text in (
        (
            "a gate that is no domain",
            "this is an invalid value",
            wrong(AT_SCHEDULING, "this is an invalid value", PATH),
        ),
        ("a gate without a path", "example.com/", wrong(AT_SCHEDULING, "example.com/", PATH)),
        ("a list of gates", "a.io/b,c.io/d", wrong(AT_SCHEDULING, "a.io/b,c.io/d", HINT)),
        ("an empty gate", "", f"{AT_SCHEDULING}: Required value: {EMPTY}"),
        ("a gate of 64 characters", longest + "x", f"{AT_SCHEDULING}: Too long: may not be more than 63 bytes"),
        ("a space in a gate", "example .com/gate", wrong(AT_SCHEDULING, "example .com", SUBDOMAIN)),
    ):
        yield new(kind, name, text, annotations={SCHEDULING_GATED: value})
    has: Wire = {"annotations": {SCHEDULING_GATED: "example.com/a"}}
    added = f"{AT_SCHEDULING}: Forbidden: cannot be added after creation"
    yield changed(kind, "a gate is taken off", noted(None, SCHEDULING_GATED), **has)
    yield changed(kind, "a gate that stays hinders no other change", noted("y", "x"), **has)
    yield changed(kind, "a gate is added", noted("example.com/a", SCHEDULING_GATED), added)
    other = f"{AT_SCHEDULING}: Forbidden: cannot be changed, only removed"
    yield changed(kind, "a gate is changed", noted("example.com/b", SCHEDULING_GATED), other, **has)
    off, on = ("", noted(None, SCHEDULING_GATED)), ("", noted("example.com/a", SCHEDULING_GATED))
    yield DoorCase("a gate is put back", kind, queued(kind, **has), (off, on), added)


def admission_gates(kind: str) -> Iterator[DoorCase]:
    """Upstream's list."""
    for name, value in (
        ("one name", "example.com/controller"),
        ("two names", "example.com/a,not.example.com/b"),
        ("spaces around names", " example.com/a , not.example.com/b "),
        ("nobody", ""),
    ):
        yield new(kind, f"held back by {name}", annotations={ADMISSION_GATED: value})
    long = "cannot.be.too.long/" + "x" * 400
    for name, value, text in (
        ("no domain", "this is an invalid value", wrong(AT_ADMISSION, "this is an invalid value", PATH)),
        ("one twice", "a.io/b,a.io/b", wrong(AT_ADMISSION, "a.io/b,a.io/b", "duplicate gate name: a.io/b")),
        ("an empty name", "a.io/b,,c.io/d", wrong(AT_ADMISSION, "a.io/b,,c.io/d", "cannot contain empty gate names")),
        ("a long name", long, f"{AT_ADMISSION}: Too long: may not be more than 63 bytes"),
        (
            "a name with a space",
            "valid.com/gate,invalid gate.com/c",
            wrong(AT_ADMISSION, "invalid gate.com", SUBDOMAIN),
        ),
    ):
        yield new(kind, f"held back by {name}", text, annotations={ADMISSION_GATED: value})
    two: Wire = {"annotations": {ADMISSION_GATED: "a.io/b,c.io/d"}}
    for name, after in (("all go", None), ("one goes", "c.io/d"), ("another order", "c.io/d,a.io/b")):
        yield changed(kind, f"held back by two: {name}", noted(after, ADMISSION_GATED), **two)
    text = f"{AT_ADMISSION}: Forbidden: can only remove gates, not add new ones"
    yield changed(kind, "held back by two: one is replaced", noted("a.io/b,e.io/f", ADMISSION_GATED), text, **two)
    text = f"{AT_ADMISSION}: Forbidden: cannot add admission gate after creation"
    yield changed(kind, "held back later", noted("a.io/b", ADMISSION_GATED), text)


def template_gates(kind: str) -> Iterator[DoorCase]:
    """Gates in the template: pods with a value that is refused could never be created."""
    bad = "this is an invalid value"
    for key, at_key in ((SCHEDULING_GATED, AT_SCHEDULING), (ADMISSION_GATED, AT_ADMISSION)):
        word = key.rpartition("/")[2]
        yield new(kind, f"a good {word} in the template", template={"annotations": {key: "example.com/a"}})
        text = wrong(f"spec.template.{at_key}", bad, PATH)
        yield new(kind, f"a bad {word} in the template", text, template={"annotations": {key: bad}})
        later = {"spec": {"template": noted(bad, key)}}
        yield changed(kind, f"a bad {word} comes into the template", later, text)


def copied_gates() -> Iterator[DoorCase]:
    """The controller of Deployments copies annotations to ReplicaSets; ``kubectl rollout undo`` copies them back."""
    other = queued("Deployment", cpu="2")["spec"]["template"]["spec"]
    for key in (SCHEDULING_GATED, ADMISSION_GATED):
        word = key.rpartition("/")[2]
        back = {**noted("example.com/a", key), "spec": {"template": {"spec": other}}}
        yield changed("Deployment", f"{word} comes back with an old template", back)
        copies = {"deployment.kubernetes.io/desired-replicas": "1"}
        late = noted("example.com/a", key)
        yield changed("ReplicaSet", f"{word} is copied to a ReplicaSet", late, annotations=copies)
        yield new("ReplicaSet", f"a bad {word} is copied to a new ReplicaSet", annotations={**copies, key: "no domain"})


def names_of_all(kind: str) -> Iterator[DoorCase]:
    yield new(kind, "a queue with a bad name", wrong(AT_QUEUE, "Not_A_Name", SUBDOMAIN), queue="Not_A_Name")
    text = f"metadata.annotations[{GROUP}/elastic-job]: Forbidden: elastic jobs are not supported by Headgate"
    yield new(kind, "elastic", text, annotations={f"{GROUP}/elastic-job": "true"})
    removed = wrong(AT_PRIORITY, "", "WorkloadPriorityClass cannot be removed from a workload")
    high: Wire = {"labels": {PRIORITY: "high"}}
    yield changed(kind, "a priority class is taken off", labelled(PRIORITY, None), removed, **high)
    yield changed(kind, "a priority class is given to who waits", labelled(PRIORITY, "high"))
    yield changed(kind, "another priority class", labelled(PRIORITY, "low"), **high)
    yield changed(kind, "who waits changes its queue", labelled(QUEUE, "other"))


def of_jobs(kind: str) -> Iterator[DoorCase]:
    running = RUNNING[kind]
    text = "metadata.annotations[headgate.dev/released]: Forbidden: only an uninstallation of Headgate sets it"
    yield changed(kind, "marked as released", noted("u", "headgate.dev/released"), text)
    moved = with_(running, labelled(QUEUE, "other"))
    yield changed(kind, "who runs stays in its queue", moved, wrong(AT_QUEUE, "other", "field is immutable"))
    given = with_(running, labelled(PRIORITY, "high"))
    text = wrong(AT_PRIORITY, "high", "WorkloadPriorityClass cannot be added to a non-suspended workload")
    yield changed(kind, "who runs is given no priority class", given, text)
    timed = with_(running, labelled(TIME, "10"))
    yield changed(kind, "who runs is given no other time", timed, wrong(AT_TIME, "10", "field is immutable"))
    yield changed(kind, "who waits is given a time", labelled(TIME, "10"))
    for written, text in (
        ("soon", wrong(AT_TIME, "soon", 'strconv.Atoi: parsing "soon": invalid syntax')),
        ("0", wrong(AT_TIME, 0, "should be greater than 0")),
        ("60", ""),
    ):
        yield new(kind, f"a time of {written}", text, labels={TIME: written})
    at_prebuilt = f"metadata.labels[{PREBUILT}]"
    yield new(kind, "a prebuilt workload with a bad name", wrong(at_prebuilt, "A", SUBDOMAIN), labels={PREBUILT: "A"})
    other = with_(running, labelled(PREBUILT, "w"))
    yield changed(kind, "who runs takes no other workload", other, wrong(at_prebuilt, "w", "field is immutable"))


def of_batch_jobs() -> Iterator[DoorCase]:
    at_least, at_sync = f"metadata.annotations[{LEAST}]", f"metadata.annotations[{SYNC}]"
    for written, text in (
        ("many", wrong(at_least, "many", 'strconv.Atoi: parsing "many": invalid syntax')),
        ("0", wrong(at_least, 0, "should be between 0 and 2")),
        ("3", wrong(at_least, 3, "should be between 0 and 2")),
        ("2", ""),
    ):
        yield new("Job", f"at least {written} of three", text, annotations={LEAST: written}, parallelism=3)
    text = wrong(at_sync, "maybe", 'strconv.ParseBool: parsing "maybe": invalid syntax')
    yield new("Job", "completions that follow, perhaps", text, annotations={SYNC: "maybe"})
    text = wrong(at_sync, "true", "should not be enabled for NonIndexed jobs")
    yield new("Job", "completions that follow without indexes", text, annotations={SYNC: "true"})
    text = wrong("spec.completions", 3, f"should be equal to parallelism when {SYNC} annotation is true")
    both: Wire = {"completionMode": "Indexed", "completions": 3}
    yield new("Job", "completions that do not follow", text, annotations={SYNC: "true"}, parallelism=2, **both)
    yield new("Job", "completions that follow", annotations={SYNC: "true"}, parallelism=3, **both)
    text = "spec.parallelism: Forbidden: cannot change when partial admission is enabled and the job is not suspended"
    body = queued("Job", annotations={LEAST: "1"}, parallelism=3)
    start, grow = ("", {"spec": {"suspend": False}}), ("", {"spec": {"suspend": False, "parallelism": 4}})
    yield DoorCase("a part that runs is not made larger", "Job", body, (start, grow), text)
    topology = f"{GROUP}/podset-required-topology"
    text = "Forbidden: topology-aware scheduling is not supported by Headgate"
    at = f"spec.template.metadata.annotations[{topology}]: "
    yield new("Job", "a topology", at + text, template={"annotations": {topology: "rack"}})


def of_pods() -> Iterator[DoorCase]:
    at_count, at_group = f"metadata.annotations[{TOTAL}]", f"metadata.labels[{GROUP_NAME}]"
    both = f"both the '{TOTAL}' annotation and the '{GROUP_NAME}' label should be set"
    text = f"metadata.labels[{MANAGED}]: Forbidden: managed label value can only be 'true'"
    yield new("Pod", "managed, perhaps", text, queue="", labels={MANAGED: "maybe"})
    yield new("Pod", "a group without a count", f"{at_count}: Required value: {both}", labels={GROUP_NAME: "g"})
    yield new("Pod", "a count without a group", f"{at_group}: Required value: {both}", annotations={TOTAL: "1"})
    text = both.replace("label should", "annotation should")
    yield new(
        "Pod",
        "a group by annotation without a count",
        f"{at_count}: Required value: {text}",
        annotations={GROUP_NAME: "g"},
    )
    zero = f"incorrect annotation value '{TOTAL}=0': group total count should be greater than zero"
    for written, text in (
        ("3", ""),
        ("x", wrong(at_count, "x", NO_NUMBER)),
        ("0", wrong(at_count, "0", zero)),
    ):
        yield new("Pod", f"a group of {written}", text, labels={GROUP_NAME: "g"}, annotations={TOTAL: written})
    group: Wire = {"labels": {GROUP_NAME: "g"}, "annotations": {TOTAL: "2", RETRIABLE: "false"}}
    bad = {**group, "labels": {GROUP_NAME: "G"}}
    yield new("Pod", "a group with a bad name", wrong(at_group, "G", SUBDOMAIN), **bad)
    gone = f"{at_count}: Required value: {both}"
    yield changed("Pod", "a group that loses its count", noted(None, TOTAL), gone, **group)
    yield changed("Pod", "a group of another size", noted("x", TOTAL), wrong(at_count, "x", NO_NUMBER), **group)
    other = wrong(at_group, "h", "field is immutable")
    yield changed("Pod", "another group", labelled(GROUP_NAME, "h"), other, **group)
    text = f"metadata.annotations[{RETRIABLE}]: Forbidden: unretriable pod group can't be converted to retriable"
    yield changed("Pod", "to be tried again after all", noted("true", RETRIABLE), text, **group)
    text = wrong(f"metadata.labels[{PREBUILT}]", "w", "prebuilt workload and pod group should be equal")
    yield new(
        "Pod",
        "a prebuilt workload that is not the group's",
        text,
        **{
            **group,
            "labels": {GROUP_NAME: "g", PREBUILT: "w"},
        },
    )


def of_templates(kind: str) -> Iterator[DoorCase]:
    gone = wrong(AT_QUEUE, "", "field is immutable")
    yield changed(kind, "out of its queue", labelled(QUEUE, None), gone)
    ready: Wire = {"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}}
    after_start = (("/status", ready), ("", labelled(QUEUE, "other")))
    text = wrong(AT_QUEUE, "other", "field is immutable")
    yield DoorCase("who runs stays in its queue", kind, queued(kind), after_start, text)


def of_stateful_sets() -> Iterator[DoorCase]:
    fixed = "field is immutable"
    yield changed(
        "StatefulSet", "a group that grows", {"spec": {"replicas": 3}}, wrong("spec.replicas", 3, fixed), replicas=2
    )
    yield changed("StatefulSet", "a group that goes", {"spec": {"replicas": 0}}, replicas=2)
    yield changed("StatefulSet", "a group that comes back", {"spec": {"replicas": 2}}, replicas=0)
    yield changed("StatefulSet", "who waits for nothing grows", {"spec": {"replicas": 3}}, queue="", replicas=2)
    for size, text in ((3, wrong("spec.replicas", 3, fixed)), (0, "")):
        scale = (("/scale", {"spec": {"replicas": size}}),)
        yield DoorCase(f"a group scaled to {size}", "StatefulSet", queued("StatefulSet", replicas=2), scale, text)
    scale = (("/scale", {"spec": {"replicas": 3}}),)
    body = queued("StatefulSet", queue="", replicas=2)
    yield DoorCase("who waits for nothing is scaled", "StatefulSet", body, scale)
    larger = queued("StatefulSet", cpu="2")["spec"]["template"]["spec"]
    at = "spec.template.spec.containers[0].resources.requests"
    yield changed(
        "StatefulSet",
        "a group of another shape",
        {"spec": {"template": {"spec": larger}}},
        f'{at}: Invalid value: {{"cpu":"2"}}: {fixed}',
    )


def all_cases() -> list[DoorCase]:
    return [
        *(case for kind in KINDS for part in (scheduling_gates, admission_gates, names_of_all) for case in part(kind)),
        *(case for kind in JOB_LIKE for case in of_jobs(kind)),
        *of_batch_jobs(),
        *of_pods(),
        *(case for kind in TEMPLATED for case in of_templates(kind)),
        *of_stateful_sets(),
        *(case for kind in ("Job", *TEMPLATED) for case in template_gates(kind)),
        *copied_gates(),
    ]


CASES = all_cases()
