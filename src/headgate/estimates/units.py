"""Units of queueing (a pod, the pods of a gang, a Workload), as far as their run times matter.

A unit that has ended is an observation of a run time; one that runs or waits needs a run time. ``run_times.py`` learns
from the former and draws for the latter. Units with the same owner, the same template or the same queue are alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from headgate.capacity.names import DEFAULT, GROUP_NAMES, QUEUE_NAME
from headgate.kube import conditions
from headgate.kube.lenient_reader import find_items, find_object, find_text, get_path
from headgate.kube.object_meta import controller_of
from headgate.kube.timestamps import parse_time
from headgate.nodes.behaviour import pod_behaviour
from headgate.quota.names import ADMITTED, EVICTED, FINISHED

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

SERVICES: Final = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Node"})
"""Controllers whose pods do not end by themselves. ``Node``: static pods."""
ENDED: Final = frozenset({"Succeeded", "Failed"})
_NUMBERS: Final = re.compile(r"\d+")


class Unit(msgspec.Struct, frozen=True):
    """``owner``: what creates such units again and again (a CronJob, a generated name, a numbered name); ``template``:
    a hash of what it runs and requests. ``limit_s``: the declared run-time limit, ``declared_s``: the declared run
    time; a unit of a service never ends. ``is_arrival``: it arrives in a replay only. ``is_interrupted``: it was
    stopped, so it would have run longer; ``ran_s``: its longest run that was interrupted, if it starts again. Times are
    in seconds since 1970; ``started_s`` is None while it waits."""

    key: str
    queue: str
    owner: str
    template: str
    created_s: float
    started_s: float | None = None
    ended_s: float | None = None
    limit_s: float | None = None
    declared_s: float | None = None
    is_service: bool = False
    is_arrival: bool = False
    is_interrupted: bool = False
    ran_s: float = 0.0

    @property
    def is_running(self) -> bool:
        return self.started_s is not None and self.ended_s is None


def time_s(text: Any) -> float | None:
    """Seconds since 1970 of an API timestamp; None if it is none."""
    parsed = parse_time(text) if isinstance(text, str) else ""
    return None if isinstance(parsed, str) else float(parsed)


def group_of(pod: Object) -> str:
    """The PodGroup of a pod; empty if it has none."""
    annotations = find_object(pod, "metadata", "annotations")
    return next((str(annotations[each]) for each in GROUP_NAMES if annotations.get(each)), "")


def queue_of_pod(pod: Object, groups: Mapping[Key, Object], namespaces: Mapping[str, Object]) -> str:
    """The queue of its PodGroup, else its own, else that of its namespace, else ``default``."""
    namespace = find_text(pod, "metadata", "namespace")
    group = groups.get((namespace, group_of(pod)))
    return (
        (find_text(group, "spec", "queue") if group is not None else "")
        or find_text(pod, "metadata", "annotations", QUEUE_NAME)
        or find_text(namespaces.get(namespace, {}), "metadata", "annotations", QUEUE_NAME)
        or DEFAULT
    )


def pod_unit(pod: Object, queue: str) -> Unit:
    """The unit of a pod: itself, or the gang that it is a member of."""
    metadata = pod["metadata"]
    group, namespace = group_of(pod), metadata.get("namespace") or ""
    controller = controller_of(pod) or {}
    declared_s = pod_behaviour(metadata).run_s
    started_s = _pod_started_s(pod)
    return Unit(
        f"gang {namespace}/{group}" if group else f"pod {namespace}/{metadata['name']}",
        queue,
        _owner_of(metadata, controller, group),
        template_hash(pod.get("spec") or {}),
        time_s(metadata.get("creationTimestamp")) or 0.0,
        started_s,
        _pod_ended_s(pod) if started_s is not None else None,
        _number(get_path(pod, ("spec", "activeDeadlineSeconds"))),
        declared_s,
        controller.get("kind") in SERVICES or declared_s == float("inf"),
        is_interrupted=conditions.is_true(get_path(pod, ("status", "conditions")), conditions.DISRUPTION_TARGET),
    )


def workload_unit(workload: Object, cluster_queue: str = "") -> Unit:
    """The unit of a Workload. ``cluster_queue``: of its LocalQueue; its admission takes precedence."""
    metadata = workload["metadata"]
    listed = get_path(workload, ("status", "conditions"))
    admitted, finished = conditions.find(listed, ADMITTED) or {}, conditions.find(listed, FINISHED) or {}
    is_admitted = admitted.get("status") == "True" and not conditions.is_true(listed, EVICTED)
    is_finished = finished.get("status") == "True"
    controller = controller_of(workload) or next(iter(metadata.get("ownerReferences") or ()), {})
    pod_sets = find_items(workload, "spec", "podSets")
    declared = [pod_behaviour(find_object(each, "template", "metadata")).run_s for each in pod_sets]
    known = [each for each in declared if each is not None]
    return Unit(
        f"workload {metadata.get('namespace')}/{metadata['name']}",
        find_text(workload, "status", "admission", "clusterQueue") or cluster_queue,
        _owner_of(metadata, controller, ""),
        template_hash([(each.get("count"), find_object(each, "template", "spec")) for each in pod_sets]),
        time_s(metadata.get("creationTimestamp")) or 0.0,
        time_s(admitted.get("lastTransitionTime")) if is_admitted or (is_finished and admitted) else None,
        time_s(finished.get("lastTransitionTime")) if is_finished else None,
        _number(get_path(workload, ("spec", "maximumExecutionTimeSeconds"))),
        max(known) if known and len(known) == len(declared) else None,
        controller.get("kind") in SERVICES or bool(known and max(known) == float("inf")),
    )


def merged(units: Iterable[Unit]) -> dict[str, Unit]:
    """The units by key. Pods of one gang are one unit: it starts with its first pod and ends with its last."""
    found: dict[str, Unit] = {}
    for each in units:
        known = found.get(each.key)
        if known is None:
            found[each.key] = each
            continue
        starts = [time for time in (known.started_s, each.started_s) if time is not None]
        ends = (known.ended_s, each.ended_s)
        found[each.key] = msgspec.structs.replace(
            known,
            created_s=min(known.created_s, each.created_s),
            started_s=min(starts, default=None),
            ended_s=None if None in ends else max(time for time in ends if time is not None),
            is_interrupted=known.is_interrupted or each.is_interrupted,
        )
    return found


def template_hash(content: Any) -> str:
    """Equal for pods with the same images, commands, arguments and requests."""
    kept: list[Any] = []

    def collect(value: Any) -> None:
        if isinstance(value, dict) and ("containers" in value or "initContainers" in value):
            for each in (*find_items(value, "initContainers"), *find_items(value, "containers")):
                kept.append([each.get(name) for name in ("image", "command", "args", "resources")])  # noqa: PERF401 - a comprehension over two levels reads worse
        elif isinstance(value, list | tuple):
            for each in value:
                collect(each)
        else:
            kept.append(value)

    collect(content)
    return blake2b(msgspec.json.encode(kept, order="deterministic"), digest_size=8).hexdigest()


def _owner_of(metadata: Mapping[str, Any], controller: Mapping[str, Any], group: str) -> str:
    """Numbers in a name count as equal: a CronJob, and most tools, number the jobs that they create."""
    name = controller.get("name") or metadata.get("generateName") or group or metadata["name"]
    return f"{metadata.get('namespace') or ''}/{_NUMBERS.sub('#', str(name))}"


def _pod_started_s(pod: Object) -> float | None:
    if not find_text(pod, "spec", "nodeName"):
        return None
    scheduled = conditions.find(get_path(pod, ("status", "conditions")), conditions.POD_SCHEDULED) or {}
    times = (find_text(pod, "status", "startTime"), scheduled.get("lastTransitionTime"))
    found = next((known for each in times if (known := time_s(each)) is not None), None)
    return time_s(find_text(pod, "metadata", "creationTimestamp")) if found is None else found


def _pod_ended_s(pod: Object) -> float | None:
    if find_text(pod, "status", "phase") not in ENDED:
        return None
    ends = [
        time_s(get_path(each, ("state", "terminated", "finishedAt")))
        for each in find_items(pod, "status", "containerStatuses")
    ]
    return max((each for each in ends if each is not None), default=None)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
