"""What ClusterQueues and cohorts may use and what they use: Kueue's formulas, computed anew for each call.

This module shares no code with the engine: an audit must not count in the same way as the audited code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from headgate.kube.resource_amounts import read_units

Object = dict[str, Any]
FlavorResource = tuple[str, str]


class Quota(NamedTuple):
    nominal: int = 0
    borrowing: int | None = None
    lending: int | None = None


NO_QUOTA = Quota()


class Node(NamedTuple):
    """A ClusterQueue or a cohort."""

    parent: str
    quotas: Mapping[FlavorResource, Quota]


def read_node(obj: Object, parent: str) -> Node:
    """``parent``: the field that names it."""
    spec = obj.get("spec") or {}
    quotas = {
        (flavor["name"], row["name"]): Quota(
            _units(row["name"], row["nominalQuota"]),
            _units(row["name"], row["borrowingLimit"]) if row.get("borrowingLimit") is not None else None,
            _units(row["name"], row["lendingLimit"]) if row.get("lendingLimit") is not None else None,
        )
        for group in spec.get("resourceGroups") or ()
        for flavor in group["flavors"]
        for row in flavor["resources"]
    }
    return Node(str(spec.get(parent) or ""), quotas)


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
        self._nodes: dict[str, Node] = {}

    def put_queue(self, queue: Object) -> None:
        node = read_node(queue, "cohortName")
        self._nodes[queue["metadata"]["name"]] = node._replace(parent=_cohort(node.parent))

    def put_cohort(self, cohort: Object) -> None:
        node = read_node(cohort, "parentName")
        self._nodes[_cohort(cohort["metadata"]["name"])] = node._replace(parent=_cohort(node.parent))

    def remove(self, name: str, *, is_cohort: bool) -> None:
        self._nodes.pop(_cohort(name) if is_cohort else name, None)

    def overdrawn(
        self, queue: str, before: Mapping[str, Mapping[FlavorResource, int]], more: Mapping[FlavorResource, int]
    ) -> Iterator[str]:
        """What is too much when a queue uses so much more than ``before``, in it and above it."""
        here = before.get(queue, {})
        after = {**before, queue: {**here, **{fr: here.get(fr, 0) + amount for fr, amount in more.items()}}}
        for fr in more:
            for name in self._path(queue):
                now, then = self._used(name, fr, after), self._used(name, fr, before)
                limit = self._most(name, fr)
                if now > then and limit is not None and now > limit:
                    yield f"{name} has {now} of {limit} of {'/'.join(fr)}"

    def _path(self, name: str) -> Iterator[str]:
        while name:
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

    def _node(self, name: str) -> Node:
        """A cohort needs no object of its own."""
        return self._nodes.get(name, Node("", {}))


def _cohort(name: str) -> str:
    return f"/{name}" if name else ""


def _units(resource: str, value: Any) -> int:
    found = read_units(resource, value, resource)
    assert isinstance(found, int), found
    return found
