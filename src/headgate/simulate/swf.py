"""Reads the Standard Workload Format 2.2 of the Parallel Workloads Archive: 18 numbers per job, -1 for unknown values.

A pod has one processor with one CPU, or as many processors and the requests that the caller gives; a job runs only as a
whole, so it is a gang. Jobs without a run time or without processors did not run and are left out; their number is
reported. Header lines begin with ``;``. Fields: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from headgate.kube import quantity
from headgate.kube.resource_amounts import as_text, units
from headgate.simulate.trace import CheckedJobs, JobCheck, TraceError, TraceJob

_FIELDS: Final = 18
_JOB, _SUBMIT, _RUN, _PROCESSORS, _REQUESTED, _USER, _QUEUE = 0, 1, 3, 4, 7, 11, 14


class SWFOptions(msgspec.Struct, frozen=True):
    """``queues``: the queue names by SWF queue number; other numbers use ``queue``. ``per_processor``: the requests of
    one processor. ``processors_per_pod``: how many processors one pod has; a job has as many pods as it needs."""

    queue: str = "default"
    queues: Mapping[str, str] = {}
    per_processor: Mapping[str, str] = msgspec.field(default_factory=lambda: {"cpu": "1"})
    processors_per_pod: int = 1


def read_swf(
    lines: Iterable[bytes],
    options: SWFOptions | None = None,
    left_out: Callable[[str], None] = lambda text: None,
    check: JobCheck = lambda job: "",
) -> Iterator[TraceJob]:
    """The jobs by submission. ``left_out`` is called with a text for each job that is not simulated."""
    options = options or SWFOptions()
    first_s, last_s, checked = None, 0.0, CheckedJobs(check)
    for number, line in enumerate(lines, 1):
        text = line.decode("utf-8", "replace").strip()
        if not text or text.startswith(";"):
            continue
        values = text.split()
        if len(values) < _FIELDS:
            raise TraceError(f"line {number}: {len(values)} fields, and the Standard Workload Format has {_FIELDS}")
        try:
            fields = [float(each) for each in values[:_FIELDS]]
        except ValueError as error:
            raise TraceError(f"line {number}: {error}") from error
        if not all(map(math.isfinite, fields)):
            raise TraceError(f"line {number}: the fields must be finite numbers")
        processors = int(fields[_PROCESSORS] if fields[_PROCESSORS] > 0 else fields[_REQUESTED])
        if processors <= 0 or fields[_RUN] < 0 or fields[_SUBMIT] < 0:
            left_out(f"line {number}: job {values[_JOB]} has no processors, run time or submission")
            continue
        first_s = fields[_SUBMIT] if first_s is None else first_s
        submit = fields[_SUBMIT] - first_s
        if submit < last_s:
            raise TraceError(f"line {number}: the submission is before that of an earlier line: sort the file")
        last_s = submit
        job = _job(values, fields, submit, processors, options)
        if checked.is_known(job):
            left_out(f"line {number}: job {values[_JOB]} is in an earlier line, too")
            continue
        yield checked.take(job, number)


def _job(values: list[str], fields: list[float], submit: float, processors: int, options: SWFOptions) -> TraceJob:
    per_pod = min(options.processors_per_pod, processors)
    pods = -(-processors // per_pod)
    queue = f"{fields[_QUEUE]:.0f}"
    return TraceJob(
        submit=submit,
        run=fields[_RUN],
        queue=options.queues.get(queue, options.queue),
        requests={name: _times(name, text, per_pod) for name, text in options.per_processor.items()},
        name=f"swf-{fields[_JOB]:.0f}",
        pods=pods,
        min_pods=pods if pods > 1 else 0,
        class_=size_class(processors),
        user=f"user-{fields[_USER]:.0f}" if fields[_USER] >= 0 else "",
    )


def _times(name: str, text: str, factor: int) -> str:
    return as_text(name, units(name, quantity.amount(text)) * factor)


def size_class(size: float) -> str:
    """The class of a job without one: the next power of two of its size, such as ``size 5-8``."""
    if size <= 1:
        return "size 1"
    bound = 2
    while bound < size:
        bound *= 2
    return "size 2" if bound == 2 else f"size {bound // 2 + 1}-{bound}"
