"""Traces: the jobs of a simulation in the order of their submission, one JSON object per line.

``docs/simulate.md`` documents the fields. Lines are read one by one, so a trace may be larger than memory. Other
formats: ``swf.py`` reads the Standard Workload Format, ``generator.py`` generates synthetic traces from published
statistics.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from headgate.kube import quantity
from headgate.simulate.random_numbers import RandomNumbers

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,198}[a-z0-9])?")
_MAX_PODS: Final = 100_000
MAX_TIME_S: Final = 100 * 365 * 86_400.0
"""The longest time of a trace and of settings: 100 years."""
MAX_LINE_BYTES: Final = 1 << 20
_SHAKEN_SUBMIT_S: Final = 30.0
_SHAKEN_RUN: Final = 0.05
_SHAKE_STREAM: Final = 7


class TraceError(ValueError):
    """A line that cannot be simulated. The text names the line."""


class TraceJob(msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """One job: ``pods`` equal pods that run for ``run`` seconds each. ``submit``: seconds since the start of the trace;
    negative for a job that waits already at the start. ``queue``: empty for a job outside of all queues. ``min_pods``:
    how many pods must start together (a gang). 0: each pod starts on its own. Equal to ``pods``: the job starts only as
    a whole. ``class_``: a label by which the report groups jobs. ``endless``: the job runs until the end of the
    simulation, and ``run`` is what is known of its run time. ``started``: it ran already at the start, so it uses
    capacity and does not count as a job."""

    submit: float
    run: Annotated[float, msgspec.Meta(ge=0)]
    queue: str
    requests: Mapping[str, str]
    name: str = ""
    namespace: str = "default"
    pods: Annotated[int, msgspec.Meta(ge=1, le=_MAX_PODS)] = 1
    min_pods: Annotated[int, msgspec.Meta(ge=0, le=_MAX_PODS)] = 0
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 0
    priority_class: str = ""
    class_: str = msgspec.field(default="", name="class")
    user: str = ""
    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Mapping[str, Any], ...] = ()
    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    affinity: Mapping[str, Any] = {}
    topology_spread_constraints: tuple[Mapping[str, Any], ...] = ()
    preemption_policy: Literal["", "Never", "PreemptLowerPriority"] = ""
    endless: bool = False
    started: bool = False


JobCheck = Callable[[TraceJob], str]
"""Why a job cannot be simulated; empty if it can."""


class CheckedJobs:
    """Refuses jobs that cannot be simulated, and names that are used twice in a namespace. ``check``: a further
    check."""

    def __init__(self, check: JobCheck) -> None:
        self._check = check
        self._lines: dict[str, int] = {}

    def is_known(self, job: TraceJob) -> bool:
        """Whether a job of this name was taken."""
        return f"{job.namespace}/{job.name}" in self._lines

    def take(self, job: TraceJob, line: int) -> TraceJob:
        """It raises :class:`TraceError`."""
        problem = find_problem(job) or self._check(job)
        first = self._lines.setdefault(f"{job.namespace}/{job.name}", line)
        if not problem and first != line:
            problem = f"the name {job.name!r} is used in line {first}, too: names are unique in a namespace"
        if problem:
            raise TraceError(f"line {line}: {problem}")
        return job


_decode: Final = msgspec.json.Decoder(TraceJob).decode


def read_trace(lines: Iterable[bytes], check: JobCheck = lambda job: "") -> Iterator[TraceJob]:
    """The jobs of a file of JSON lines. Empty lines, and lines that begin with ``#``, are skipped."""
    last_s, checked = -math.inf, CheckedJobs(check)
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(b"#"):
            continue
        if len(text) > MAX_LINE_BYTES:
            raise TraceError(f"line {number}: it has more than {MAX_LINE_BYTES >> 20} MiB")
        try:
            job = _decode(text)
        except RecursionError:
            raise TraceError(f"line {number}: lists and objects are nested too deeply") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TraceError(f"line {number}: {error}") from error
        if not job.name:
            job = msgspec.structs.replace(job, name=f"job-{number}")
        checked.take(job, number)
        if job.submit < last_s:
            problem = f"submit {job.submit:g} is before that of an earlier line ({last_s:g}): sort the file by submit"
            raise TraceError(f"line {number}: {problem}")
        last_s = job.submit
        yield job


def find_problem(job: TraceJob) -> str:
    """Why the job cannot be simulated; empty if it can."""
    if not _NAME.fullmatch(job.name):
        return f"name {job.name!r} is not a valid Kubernetes name: lower-case letters, digits, '-' and '.'"
    if not _NAME.fullmatch(job.namespace):
        return f"namespace {job.namespace!r} is not a valid Kubernetes name"
    if job.min_pods > job.pods:
        return f"minPods {job.min_pods} is larger than pods {job.pods}"
    if not job.requests:
        return "requests is empty: a pod without requests needs no capacity"
    if not abs(job.submit) <= MAX_TIME_S or not 0 <= job.run <= MAX_TIME_S:
        return f"submit and run must be finite numbers of seconds, at most {MAX_TIME_S:.0f} (100 years)"
    return amounts_problem("requests", job.requests)


def amounts_problem(path: str, amounts: Mapping[str, str]) -> str:
    """Why the texts are not amounts of resources; empty if they are."""
    for name, text in amounts.items():
        parsed = quantity.parse(text)
        if isinstance(parsed, str):
            return f"{path}.{name}: {text!r} is not a quantity"
        if parsed.nano < 0:
            return f"{path}.{name}: {text} is negative"
    return ""


def trace_lines(jobs: Iterable[TraceJob]) -> Iterator[bytes]:
    """The lines of a trace file."""
    for job in jobs:
        yield msgspec.json.encode(job) + b"\n"


def shaken(jobs: Iterable[TraceJob], seed: int) -> Iterator[TraceJob]:
    """The trace with small random changes: submissions up to 30 s later, run times up to 5 % shorter or longer. Jobs
    that wait or run already at the start are submitted when they were. A result that depends on the exact times of one
    trace disappears in the mean over several seeds (Tsafrir, Ouaknine, Feitelson 2007)."""
    random, waiting = RandomNumbers(seed, _SHAKE_STREAM), list[tuple[float, int, TraceJob]]()
    for number, job in enumerate(jobs):
        while waiting and waiting[0][0] <= job.submit:
            yield heapq.heappop(waiting)[2]
        later_s = _SHAKEN_SUBMIT_S * random.uniform()
        submit = job.submit if job.submit < 0 or job.started else round(job.submit + later_s, 3)
        run = round(job.run * (1 + _SHAKEN_RUN * (2 * random.uniform() - 1)), 3)
        heapq.heappush(waiting, (submit, number, msgspec.structs.replace(job, submit=submit, run=run)))
    while waiting:
        yield heapq.heappop(waiting)[2]
