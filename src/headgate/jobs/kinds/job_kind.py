"""A job kind as data: paths of fields, and small pure functions where a path is not enough.

The controller has no code for particular kinds. ``batch_job.py`` has the kind that is always known;
``framework_kinds.py`` the built-in kinds that an installation turns on; ``custom.py`` reads kinds from a file.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headgate.jobs.kinds.job_fields import JobPath, Object, Path, value_at
from headgate.jobs.names import STOPPING
from headgate.kube.api_resources import APIResource
from headgate.kube.field_errors import FieldErrors
from headgate.kube.lenient_reader import get_path
from headgate.kube.schema import GroupVersionKind


class JobOutcome(msgspec.Struct, frozen=True):
    """How a job or a pod group ended."""

    succeeded: bool
    message: str


def _no_terminating_pods(job: Object) -> bool:
    return False


def _no_refusals(job: Object) -> FieldErrors:
    return []


def _is_never_ignored(job: Object) -> bool:
    return False


class JobPodSet(msgspec.Struct, frozen=True):
    """A pod set of one job. ``template``: where its pod template is. ``charged``: the template in the Workload; it
    differs from the job's if the controller of the kind adds containers. ``is_default``: the job has no template there;
    the start writes the charged one, and the stop removes it. ``min_count``: the number of pods that is enough for a
    start (partial admission), None if all are needed. ``counts``: where the admitted number is written."""

    name: str
    template: JobPath
    charged: Object
    count: int
    min_count: int | None = None
    counts: tuple[JobPath, ...] = ()
    is_default: bool = False


class JobPodSets(msgspec.Struct, frozen=True):
    """The pod sets of one job. ``problem``: why its pods cannot be counted, so that it is not started; empty if they
    can. Templates are restored also then."""

    found: tuple[JobPodSet, ...]
    problem: str = ""


class HoldField(msgspec.Struct, frozen=True):
    """The field that keeps a job from running: ``held`` is its value while the job waits, ``started`` its value when
    the job starts; None: the field is removed."""

    path: Path
    held: str | int | bool = True
    started: str | int | bool | None = False


class PodGating(msgspec.Struct, frozen=True):
    """How the pods of a kind without a field that suspends it wait: each pod has a gate when it is created. ``group``:
    the labels of a pod of which the first one that it has names its group in the job; empty if each pod waits alone.
    ``size`` returns the number of pods in each group of a job. ``is_serving``: a group never ends by itself."""

    group: tuple[str, ...]
    size: Callable[[Object], int]
    is_serving: bool


class JobKind(msgspec.Struct, frozen=True):
    """``integration``: its name in Kueue's configuration. ``hold``: the field that suspends the job. ``pod_sets``
    returns the pod sets of a job. ``managed_labels``: template labels that the
    server sets and not the user. The other functions receive the job: ``is_active`` returns whether pods may still use
    the quota; ``outcome`` how the job ended, None if it has not; ``ready`` how many pods are ready or have succeeded;
    ``has_terminating_pods`` whether pods of the job terminate; ``refusals`` what prevents a Workload of the job
    (admission rejects a job for those that are not in its status); ``is_ignored`` whether it never needs a Workload."""

    integration: str
    kind: GroupVersionKind
    resource: APIResource
    hold: HoldField
    pod_sets: Callable[[Object], JobPodSets]
    managed_labels: frozenset[str]
    is_active: Callable[[Object], bool]
    outcome: Callable[[Object], JobOutcome | None]
    ready: Callable[[Object], int]
    reclaimable: Callable[[Object], dict[str, int]]
    """How many pods of each pod set are no longer needed."""
    has_terminating_pods: Callable[[Object], bool] = _no_terminating_pods
    start_time: Path = ()
    """The field that must be removed from a suspended job before its template can be changed; empty if none."""
    priority_class: Path = ()
    """The field with the name of the PriorityClass, before those of the templates; empty if none."""
    refusals: Callable[[Object], FieldErrors] = _no_refusals
    is_ignored: Callable[[Object], bool] = _is_never_ignored
    merged_children: str = ""
    """The domain of the keys that the controller of the kind adds to its child Jobs, if it merges templates into Jobs
    that exist already (``framework/child_restores.py``); otherwise empty."""
    gate: PodGating | None = None
    """If it is set, the pods wait and not the job: ``jobs/pods/`` handles them, and ``hold`` is empty."""


def kubectl_names(kind: JobKind) -> tuple[str, ...]:
    """The names of the kind in kubectl."""
    singular, plural, group = kind.kind.kind.lower(), kind.resource.plural, kind.kind.group
    return singular, plural, f"{singular}.{group}", f"{plural}.{group}"


def job_pod_sets(kind: JobKind, job: Object) -> tuple[JobPodSet, ...]:
    """The pod sets of a job. A pod set whose template is missing has no pods and is left out."""
    return kind.pod_sets(job).found


def pod_set_problem(kind: JobKind, job: Object) -> str:
    """Why no Workload can be created for a job; empty if one can."""
    refused = kind.refusals(job)
    return str(refused[0]) if refused else kind.pod_sets(job).problem


def template_of(job: Object, pod_set: JobPodSet) -> Object:
    """The pod template as it is in the job; the charged one if the start will write it."""
    found: Object = pod_set.charged if pod_set.is_default else value_at(job, pod_set.template)
    return found


def hold_value(kind: JobKind) -> str:
    """The value that holds a job, as YAML has it."""
    held = kind.hold.held
    return str(held).lower() if isinstance(held, bool) else str(held)


def hold_text(kind: JobKind) -> str:
    """How a user suspends a job."""
    return f"to queue it, suspend it: set {'.'.join(kind.hold.path)} to {hold_value(kind)}"


def has_suspend_set(kind: JobKind, job: Object) -> bool:
    """Whether the field that suspends the job has the value that does so."""
    found = get_path(job, kind.hold.path)
    return type(found) is type(kind.hold.held) and found == kind.hold.held


def is_stopping(job: Object) -> bool:
    """Whether the job has the annotation ``STOPPING``: it was suspended, and its templates are not restored yet."""
    return bool(get_path(job, ("metadata", "annotations", STOPPING)) == "true")


def is_suspended(kind: JobKind, job: Object) -> bool:
    """Whether the job is suspended and its templates are restored."""
    return has_suspend_set(kind, job) and not is_stopping(job)
