"""Printers of ReplicaSets and the other pod-owning kinds, of Jobs and CronJobs, and of Scale."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.printers.cells import container_cells, is_true, labels_text, ratio, selector_text, template_spec
from headgate.apiserver.printers.printer import (
    AGE,
    NAME,
    NONE,
    POD_COLUMNS,
    SELECTOR,
    UNSET,
    Cells,
    Object,
    Printer,
    TableColumn,
    age_of,
    boolean,
    integer,
    name_of,
    part,
    since,
    text,
)
from headgate.kube.labels import from_label_selector
from headgate.kube.timestamps import human_duration, parse_time

# The status of a job is the first of these that is true; without any it is Running.
_FINISHED_CONDITIONS: Final = (("Complete", "Complete"), ("Failed", "Failed"))
_OTHER_CONDITIONS: Final = (
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _replica_cells(obj: Object, now: float) -> Cells:
    status = part(obj, "status")
    return [
        name_of(obj),
        part(obj, "spec").get("replicas") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        age_of(obj, now),
        *container_cells(template_spec(obj)),
    ]


def _replica_set_cells(obj: Object, now: float) -> Cells:
    return [*_replica_cells(obj, now), selector_text(part(obj, "spec").get("selector"))]


def _replication_controller_cells(obj: Object, now: float) -> Cells:
    return [*_replica_cells(obj, now), labels_text(part(obj, "spec").get("selector"))]


def _daemon_set_cells(obj: Object, now: float) -> Cells:
    status, pod_spec = part(obj, "status"), template_spec(obj)
    return [
        name_of(obj),
        status.get("desiredNumberScheduled") or 0,
        status.get("currentNumberScheduled") or 0,
        status.get("numberReady") or 0,
        status.get("updatedNumberScheduled") or 0,
        status.get("numberAvailable") or 0,
        labels_text(pod_spec.get("nodeSelector")),
        age_of(obj, now),
        *container_cells(pod_spec),
        selector_text(part(obj, "spec").get("selector")),
    ]


def _deployment_cells(obj: Object, now: float) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    selector = spec.get("selector")
    return [
        name_of(obj),
        ratio(status.get("readyReplicas") or 0, spec.get("replicas") or 0),
        status.get("updatedReplicas") or 0,
        status.get("availableReplicas") or 0,
        age_of(obj, now),
        *container_cells(template_spec(obj)),
        "" if selector is None else str(from_label_selector(selector)),
    ]


def _stateful_set_cells(obj: Object, now: float) -> Cells:
    ready = part(obj, "status").get("readyReplicas") or 0
    return [
        name_of(obj),
        ratio(ready, part(obj, "spec").get("replicas") or 0),
        age_of(obj, now),
        *container_cells(template_spec(obj)),
    ]


def _controller_revision_cells(obj: Object, now: float) -> Cells:
    return [name_of(obj), _controller(obj), obj.get("revision") or 0, age_of(obj, now)]


def _controller(obj: Object) -> str:
    for owner in part(obj, "metadata").get("ownerReferences") or ():
        if owner.get("controller"):
            group, _, _ = (owner.get("apiVersion") or "").rpartition("/")
            kind = f"{owner.get('kind')}.{group}" if group else f"{owner.get('kind')}"
            return f"{kind.lower()}/{owner.get('name')}"
    return NONE


def job_status(job: Object) -> str:
    conditions = part(job, "status").get("conditions")
    for condition, shown in _FINISHED_CONDITIONS:
        if is_true(conditions, condition):
            return shown
    if part(job, "metadata").get("deletionTimestamp"):
        return "Terminating"
    return next((shown for condition, shown in _OTHER_CONDITIONS if is_true(conditions, condition)), "Running")


def _job_cells(job: Object, now: float) -> Cells:
    spec = part(job, "spec")
    return [
        name_of(job),
        job_status(job),
        _completions(job),
        _job_duration(job, now),
        age_of(job, now),
        *container_cells(template_spec(job)),
        selector_text(spec.get("selector")),
    ]


def _completions(job: Object) -> str:
    spec, done = part(job, "spec"), part(job, "status").get("succeeded") or 0
    desired, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    if desired is not None:
        return ratio(done, desired)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(job: Object, now: float) -> str:
    status = part(job, "status")
    if not status.get("startTime"):
        return ""
    started = parse_time(status["startTime"])
    ended = parse_time(status["completionTime"]) if status.get("completionTime") else now
    return "" if isinstance(started, str) or isinstance(ended, str) else human_duration(ended - started)


def _cron_job_cells(obj: Object, now: float) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    suspend, last = spec.get("suspend"), status.get("lastScheduleTime")
    job_spec = part(spec, "jobTemplate", "spec")
    return [
        name_of(obj),
        spec.get("schedule") or "",
        spec.get("timeZone") or NONE,
        UNSET if suspend is None else str(bool(suspend)),
        len(status.get("active") or ()),
        since(last, now) if last else NONE,
        age_of(obj, now),
        *container_cells(part(job_spec, "template", "spec")),
        selector_text(job_spec.get("selector")),
    ]


def _scale_cells(obj: Object, now: float) -> Cells:
    desired, present = part(obj, "spec").get("replicas") or 0, part(obj, "status").get("replicas") or 0
    return [name_of(obj), desired, present, age_of(obj, now)]


_REPLICA_COLUMNS: Final = (
    NAME,
    integer("Desired", "Pods that are wanted."),
    integer("Current", "Pods that exist."),
    integer("Ready", "Pods that are ready."),
    AGE,
    *POD_COLUMNS,
    SELECTOR,
)

REPLICA_SET: Final = Printer(_REPLICA_COLUMNS, _replica_set_cells)
REPLICATION_CONTROLLER: Final = Printer(_REPLICA_COLUMNS, _replication_controller_cells)
DAEMON_SET: Final = Printer(
    (
        NAME,
        integer("Desired", "Nodes that should run a pod."),
        integer("Current", "Nodes that run one and should."),
        integer("Ready", "Nodes whose pod is ready."),
        integer("Up-to-date", "Nodes whose pod is of the newest template."),
        integer("Available", "Nodes whose pod is available."),
        text("Node Selector", "Which nodes it is for."),
        AGE,
        *POD_COLUMNS,
        SELECTOR,
    ),
    _daemon_set_cells,
)
DEPLOYMENT: Final = Printer(
    (
        NAME,
        text("Ready", "Pods that are ready, of those wanted."),
        text("Up-to-date", "Pods of the newest template."),
        text("Available", "Pods that are available."),
        AGE,
        *POD_COLUMNS,
        SELECTOR,
    ),
    _deployment_cells,
)
STATEFUL_SET: Final = Printer(
    (NAME, text("Ready", "Pods that are ready, of those wanted."), AGE, *POD_COLUMNS), _stateful_set_cells
)
CONTROLLER_REVISION: Final = Printer(
    (NAME, text("Controller", "The owner of the revision."), text("Revision", "Number of the revision."), AGE),
    _controller_revision_cells,
)
JOB: Final = Printer(
    (
        NAME,
        text("Status", "The state of the job."),
        text("Completions", "Pods that succeeded, of those wanted."),
        text("Duration", "How long it ran, or runs."),
        AGE,
        *POD_COLUMNS,
        SELECTOR,
    ),
    _job_cells,
)
CRON_JOB: Final = Printer(
    (
        NAME,
        text("Schedule", "When jobs start, in cron format."),
        text("Timezone", "The time zone of the schedule."),
        boolean("Suspend", "Whether it is paused."),
        integer("Active", "Jobs that run now."),
        text("Last Schedule", "Time since the last start."),
        AGE,
        *POD_COLUMNS,
        SELECTOR,
    ),
    _cron_job_cells,
)
SCALE: Final = Printer(
    (
        TableColumn("Name", "string", "", "Name of the object.", 0),
        integer("Desired", "Pods that are wanted."),
        integer("Available", "Pods that exist."),
        AGE,
    ),
    _scale_cells,
)
