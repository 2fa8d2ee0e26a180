"""Kueue's queues and workloads as of one moment, rebuilt from lists: for ``headgate workloads`` and ``explain``.

A generator that yields requests and is sent answers. Workloads come first, the other lists at their revision. The
engine is told what there is and never asked to decide: who holds quota, who stands where in line and what is missing
can be read off. A list that is refused is a gap; who may only see his own namespace sees his own workloads, and no
places in line, for those count the others'.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

import msgspec

from headgate.client.listing import Page, Refused, list_all
from headgate.client.transport import Request, Response
from headgate.control.survey import FORBIDDEN, Gap, gap_of, list_at
from headgate.kube import wire_json
from headgate.kube.resource import LIMIT_RANGES, NAMESPACES, RUNTIME_CLASSES, Resource
from headgate.quota.checks import is_check_active
from headgate.quota.engine import Engine, Settings
from headgate.quota.kinds.names import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)

Wire = dict[str, Any]

_decode: Final = wire_json.Decoder(Page[Wire]).decode


class QuotaSurvey(msgspec.Struct, frozen=True):
    """``workloads``: as the server showed them, by namespace/name. ``revision``: of them, and of all the rest if the
    server can. ``is_partial``: only the workloads of one namespace could be seen."""

    engine: Engine
    workloads: Mapping[str, Wire]
    revision: str
    gaps: tuple[Gap, ...] = ()
    is_partial: bool = False

    def lacks(self, resource: Resource) -> bool:
        """Whether a list could not be had that is there, as far as is known."""
        return any(gap.plural == resource.plural and not gap.is_absent for gap in self.gaps)

    @property
    def is_absent(self) -> bool:
        """Whether the server does not know Kueue's kinds at all."""
        return any(gap.plural == WORKLOADS.plural and gap.is_absent for gap in self.gaps)

    @property
    def knows_places(self) -> bool:
        return not self.is_partial and not any(map(self.lacks, (WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES)))


def survey_quota(namespace: str, now_s: float) -> Generator[Request, Response, QuotaSurvey]:
    """``namespace``: where to look for workloads if nobody lets us look everywhere; empty: only everywhere will do."""
    engine, gaps = Engine(Settings()), []
    is_partial = False
    found = yield from list_all(WORKLOADS.collection(), _decode)
    if isinstance(found, Refused) and found.status == FORBIDDEN and namespace:
        gaps.append(gap_of(WORKLOADS, found))
        found, is_partial = (yield from list_all(WORKLOADS.collection(namespace), _decode)), True
    if isinstance(found, Refused):
        gaps.append(gap_of(WORKLOADS, found))
        return QuotaSurvey(engine, {}, "", tuple(gaps), is_partial)
    workloads, revision = found.items, found.revision
    for resource, tell in _tellers(engine).items():
        listed = yield from list_at(resource, revision)
        if isinstance(listed, Refused):
            gaps.append(gap_of(resource, listed))
            continue
        for wire in listed.items:
            tell(wire, now_s)
    for wire in workloads:
        engine.workload_applied(wire, now_s)
    known = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in workloads}
    return QuotaSurvey(engine, known, revision, tuple(gaps), is_partial)


def _tellers(engine: Engine) -> dict[Resource, Callable[[Wire, float], object]]:
    def namespace(wire: Wire, now_s: float) -> object:
        return engine.namespace_applied(wire["metadata"]["name"], wire["metadata"].get("labels") or {}, now_s)

    def check(wire: Wire, now_s: float) -> object:
        return engine.check_applied(wire["metadata"]["name"], is_check_active(wire), now_s)

    return {
        NAMESPACES: namespace,
        LIMIT_RANGES: engine.limit_range_applied,
        RUNTIME_CLASSES: engine.runtime_class_applied,
        RESOURCE_FLAVORS: engine.flavor_applied,
        ADMISSION_CHECKS: check,
        COHORTS: engine.cohort_applied,
        CLUSTER_QUEUES: engine.cluster_queue_applied,
        LOCAL_QUEUES: engine.local_queue_applied,
    }
