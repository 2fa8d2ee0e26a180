"""What a simulation keeps of a job and of a pod while they exist. Of a finished job only measurements stay."""

from __future__ import annotations

from typing import Any

from headgate.simulate.trace import TraceJob

Object = dict[str, Any]


class JobRecord:
    """A job that has not ended. ``is_background``: it ran already at the start, so it is not measured as a job.
    ``is_plain``: it consists of pods; otherwise it is a Job in Kueue's queues."""

    __slots__ = (
        *("ended", "group", "has_started", "is_background", "is_plain", "job", "placed", "submit_s", "template"),
        "vector",
    )

    def __init__(self, job: TraceJob, vector: tuple[int, ...], submit_s: float, *, is_plain: bool = True) -> None:
        self.job = job
        self.is_background = job.started
        self.is_plain = is_plain
        self.vector = vector
        self.submit_s = submit_s
        self.placed = 0
        self.ended = 0
        self.has_started = job.started
        self.template: Object | None = None
        self.group: Object | None = None


class SimulatedPod:
    """A pod that exists. ``number`` and ``attempt``: of its job's pods, and how often it was created before.
    ``is_daemon``: it belongs to its node and is not created again."""

    __slots__ = ("attempt", "bound_s", "is_daemon", "is_stopping", "name", "node", "number", "record")

    def __init__(self, record: JobRecord, name: str, number: int, attempt: int) -> None:
        self.record = record
        self.name = name
        self.number = number
        self.attempt = attempt
        self.node = ""
        self.bound_s = 0.0
        self.is_daemon = False
        self.is_stopping = False
