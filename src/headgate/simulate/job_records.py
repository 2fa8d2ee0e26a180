"""What a simulation keeps of a job and of a pod while they exist. Of a finished job only measurements stay."""

from __future__ import annotations

from typing import Any

from headgate.simulate.trace import TraceJob

Object = dict[str, Any]


class JobRecord:
    """A job that has not ended."""

    __slots__ = ("ended", "group", "has_started", "job", "placed", "submit_s", "template", "vector")

    def __init__(self, job: TraceJob, vector: tuple[int, ...], submit_s: float) -> None:
        self.job = job
        self.vector = vector
        self.submit_s = submit_s
        self.placed = 0
        self.ended = 0
        self.has_started = False
        self.template: Object | None = None
        self.group: Object | None = None


class SimulatedPod:
    """A pod of the trace that exists. ``number`` and ``attempt``: of its job's pods, and how often it was created
    before."""

    __slots__ = ("attempt", "bound_s", "is_stopping", "name", "node", "number", "record")

    def __init__(self, record: JobRecord, name: str, number: int, attempt: int) -> None:
        self.record = record
        self.name = name
        self.number = number
        self.attempt = attempt
        self.node = ""
        self.bound_s = 0.0
        self.is_stopping = False
