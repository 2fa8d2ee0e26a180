"""Which jobs are ours: by the labels of their namespace, by their queue, and by whose children they are.

A child of a managed job has no Workload: it waits while its ancestor's is not admitted, and is left alone otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from headgate.jobs.ancestors import Find, Known, Unsure, managed_ancestor
from headgate.jobs.kind import Object
from headgate.jobs.names import DEFAULT_QUEUE
from headgate.jobs.settings import JobSettings
from headgate.jobs.workload import queue_of


class Child(msgspec.Struct, frozen=True):
    ancestor: Object


Standing = Literal["managed", "free", "elsewhere"] | Child | Unsure
"""Free: nobody's business. Elsewhere: in a namespace that is not managed."""


class Scope(msgspec.Struct, frozen=True):
    """``namespaces``: their labels by name. ``defaults``: namespaces with a LocalQueue for all who name none, and when
    that was made. ``workload_of``: the Workload of a job that is not finished, if it has one."""

    settings: JobSettings
    namespaces: Mapping[str, Mapping[str, str]]
    defaults: Mapping[str, str]
    known: Known
    find: Find
    workload_of: Callable[[Object], Object | None]

    def standing(self, job: Object) -> Standing:
        labels = self.namespaces.get(job["metadata"]["namespace"])
        if labels is None or not self.settings.namespaces.matches(labels):
            return "elsewhere"
        ancestor = managed_ancestor(job, self.find, self.known, manages_all=self.settings.manages_all)
        if ancestor is not None:
            return ancestor if isinstance(ancestor, Unsure) else Child(ancestor)
        return "managed" if queue_of(job) or self.settings.manages_all else "free"

    def default_queue(self, job: Object) -> str:
        """For a job that came in past admission, after the queue was there; empty if there is none."""
        since = self.defaults.get(job["metadata"]["namespace"])
        created = job["metadata"].get("creationTimestamp") or ""
        return DEFAULT_QUEUE if since is not None and created >= since else ""
