"""What ClusterQueues and cohorts may use and what they use: Kueue's formulas, computed anew for each call.

This module shares no code with the engine: an audit must not count in the same way as the audited code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from headgate.kube.resource_amounts import read_units

Object = dict[str, Any]
FlavorResource = tuple[str, str]

_MAX_DEPTH: Final = 32


class QuotaLimit(NamedTuple):
    nominal: int = 0
    borrowing: int | None = None
    lending: int | None = None


NO_QUOTA = QuotaLimit()


class LimitNode(NamedTuple):
    """A ClusterQueue or a cohort."""

    parent: str
    quotas: Mapping[FlavorResource, QuotaLimit]


def read_node(obj: Object, *parents: str) -> LimitNode:
    """``parents``: the fields that name the parent, in v1beta2 and in v1beta1."""
    spec = obj.get("spec") or {}
    quotas = {
        (flavor["name"], row["name"]): QuotaLimit(
            _units(row["name"], row["nominalQuota"]),
            _units(row["name"], row["borrowingLimit"]) if row.get("borrowingLimit") is not None else None,
            _units(row["name"], row["lendingLimit"]) if row.get("lendingLimit") is not None else None,
        )
        for group in spec.get("resourceGroups") or ()
        for flavor in group["flavors"]
        for row in flavor["resources"]
    }
    return LimitNode(str(next((spec[each] for each in parents if spec.get(each)), "")), quotas)


def usage_of(workload: Object) -> dict[FlavorResource, int]:
    """What a Workload with an admission holds; pods that were reclaimed hold nothing."""
    found: dict[FlavorResource, int] = {}
    sets = {each["name"]: each["count"] for each in workload["spec"]["podSets"]}
    reclaimed = {each["name"]: each["count"] for each in workload["status"].get("reclaimablePods") or ()}
    for given in workload["status"]["admission"]["podSetAssignments"]:
        left = min(sets[given["name"]] - reclaimed.get(given["name"], 0), given["count"])
        for resource, total in (given.get("resourceUsage") or {}).items():
            each = _units(resource, total) // max(given["count"], 1)
            fr = given["flavors"][resource], resource
            found[fr] = found.get(fr, 0) + each * left
    return found


class Limits:
    """``queues`` by their names, cohorts by ``/name``: a cohort may have the name of a queue."""

    def __init__(self) -> None:
        self._nodes: dict[str, LimitNode] = {}

    def put_queue(self, queue: Object) -> bool:
        """Whether its limits have changed."""
        return self._put(queue["metadata"]["name"], read_node(queue, "cohortName", "cohort"))

    def put_cohort(self, cohort: Object) -> bool:
        return self._put(_cohort(cohort["metadata"]["name"]), read_node(cohort, "parentName", "parent"))

    def remove(self, name: str, *, is_cohort: bool) -> bool:
        return self._nodes.pop(_cohort(name) if is_cohort else name, None) is not None

    def _put(self, name: str, node: LimitNode) -> bool:
        before, now = self._nodes.get(name), node._replace(parent=_cohort(node.parent))
        self._nodes[name] = now
        return before is not None and before != now

    def overdrawn(
        self, queue: str, before: Mapping[str, Mapping[FlavorResource, int]], more: Mapping[FlavorResource, int]
    ) -> Iterator[str]:
        """What is too much when a queue uses so much more than ``before``, in it and above it."""
        path = list(self._path(queue))
        if queue not in self._nodes or len(path) == _MAX_DEPTH:
            return  # an unknown queue, or a circle of cohorts: there is no limit to compare with
        here = before.get(queue, {})
        after = {**before, queue: {**here, **{fr: here.get(fr, 0) + amount for fr, amount in more.items()}}}
        for fr in more:
            for name in path:
                now, then = self._used(name, fr, after), self._used(name, fr, before)
                limit = self._most(name, fr)
                if now > then and limit is not None and now > limit:
                    yield f"{name} has {now} of {limit} of {'/'.join(fr)}"

    def exceeded(self, held: Mapping[str, Mapping[FlavorResource, int]]) -> Iterator[tuple[str, str]]:
        """The ClusterQueues and cohorts that use more than they may now, each with a text."""
        names = {each for queue in held if queue in self._nodes for each in self._path(queue)}
        for name in sorted(names):
            if len(list(self._path(name))) == _MAX_DEPTH:
                continue
            for fr in sorted({fr for counts in held.values() for fr in counts}):
                used, limit = self._used(name, fr, held), self._most(name, fr)
                if limit is not None and used > limit:
                    kind = f"Cohort {name[1:]}" if name.startswith("/") else f"ClusterQueue {name}"
                    yield kind, f"it has {used} of {limit} of {'/'.join(fr)} now"

    def _path(self, name: str) -> Iterator[str]:
        for _ in range(_MAX_DEPTH):  # cohorts may form a circle
            if not name:
                return
            yield name
            name = self._node(name).parent

    def _most(self, name: str, fr: FlavorResource) -> int | None:
        """None: whatever there is above."""
        node, subtree = self._node(name), self._subtree(name, fr)
        if not node.parent:
            return subtree
        limit = node.quotas.get(fr, NO_QUOTA).borrowing
        return None if limit is None else subtree + limit

    def _subtree(self, name: str, fr: FlavorResource) -> int:
        below = sum(self._subtree(each, fr) - self._local(each, fr) for each in self._children(name))
        return self._node(name).quotas.get(fr, NO_QUOTA).nominal + below

    def _local(self, name: str, fr: FlavorResource) -> int:
        """What it does not lend."""
        lending = self._node(name).quotas.get(fr, NO_QUOTA).lending
        return 0 if lending is None else max(0, self._subtree(name, fr) - lending)

    def _used(self, name: str, fr: FlavorResource, held: Mapping[str, Mapping[FlavorResource, int]]) -> int:
        below = (max(0, self._used(each, fr, held) - self._local(each, fr)) for each in self._children(name))
        return held.get(name, {}).get(fr, 0) + sum(below)

    def _children(self, name: str) -> Iterable[str]:
        return [each for each, node in self._nodes.items() if node.parent == name] if name.startswith("/") else ()

    def _node(self, name: str) -> LimitNode:
        """A cohort needs no object of its own."""
        return self._nodes.get(name, LimitNode("", {}))


def _cohort(name: str) -> str:
    return f"/{name}" if name else ""


def _units(resource: str, value: Any) -> int:
    """Zero for an invalid amount, which the API server does not accept."""
    found = read_units(resource, value, resource)
    return found if isinstance(found, int) else 0
