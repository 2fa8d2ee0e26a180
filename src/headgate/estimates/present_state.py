"""The present state of a cluster, from lists of its objects: what runs, what waits, and what has ended.

Pods and Workloads that have ended and still exist are what run times are learned from; all that exist are what arrivals
are learned from. A caller that knows more of the past, such as a recording, passes it instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headgate.capacity.names import POD_GROUPS
from headgate.estimates.arrivals import ArrivalHistory, arrivals_of
from headgate.estimates.pod_replay import PodReplayState
from headgate.estimates.units import ENDED, Unit, group_of, merged, pod_unit, queue_of_pod, workload_unit
from headgate.estimates.workload_replay import SERVED, WorkloadState, workload_key
from headgate.kube import conditions
from headgate.kube.api_resources import NAMESPACES, PODS, APIResource
from headgate.kube.lenient_reader import find_items, find_text
from headgate.quota.kinds.names import LOCAL_QUEUES, WORKLOADS
from headgate.quota.names import FINISHED

Object = dict[str, Any]
Objects = Mapping[APIResource, Sequence[Object]]


class Past(msgspec.Struct, frozen=True):
    """What is known of the past: units that have ended, and arrivals. ``ran_s``: how long units that wait or run again
    ran before they were interrupted, by key."""

    ended: tuple[Unit, ...]
    arrivals: ArrivalHistory
    ran_s: Mapping[str, float] = {}


def pod_state(objects: Objects, now_s: float, past: Past | None = None) -> PodReplayState:
    """``objects``: of all resources that the scheduler watches, and pods, also ended ones."""
    groups = {_key(each): each for each in objects.get(POD_GROUPS, ())}
    namespaces = {each["metadata"]["name"]: each for each in objects.get(NAMESPACES, ())}
    pods = [_without_volumes(each) for each in objects.get(PODS, ())]
    own = {each["metadata"]["uid"]: pod_unit(each, queue_of_pod(each, groups, namespaces)) for each in pods}
    units = merged(own.values())
    live = tuple(each for each in pods if find_text(each, "status", "phase") not in ENDED)
    if past is None:
        ended = tuple(each for each in units.values() if each.ended_s is not None)
        past = Past(ended, arrivals_of(_with_objects(units, own, pods, groups)))
    return PodReplayState(
        now_s,
        tuple((resource, obj) for resource, listed in objects.items() if resource != PODS for obj in listed),
        live,
        {uid: _with_run(units[unit.key], past) for uid, unit in own.items()},
        past.ended,
        past.arrivals,
    )


def _without_volumes(pod: Object) -> Object:
    """Volumes take no part in a replay: a claim that is not bound yet would never be."""
    spec = pod.get("spec") or {}
    if not spec.get("volumes"):
        return pod
    return {**pod, "spec": {name: value for name, value in spec.items() if name != "volumes"}}


def _with_objects(
    units: Mapping[str, Unit],
    own: Mapping[str, Unit],
    pods: Sequence[Object],
    groups: Mapping[tuple[str, str], Object],
) -> list[tuple[Unit, list[tuple[APIResource, Object]]]]:
    objects: dict[str, list[tuple[APIResource, Object]]] = {}
    for pod in pods:
        key = own[pod["metadata"]["uid"]].key
        listed = objects.setdefault(key, [])
        group = groups.get((find_text(pod, "metadata", "namespace"), group_of(pod)))
        if group is not None and not listed:
            listed.append((POD_GROUPS, group))
        listed.append((PODS, pod))
    return [(units[key], listed) for key, listed in objects.items()]


def workload_state(objects: Objects, now_s: float, past: Past | None = None) -> WorkloadState:
    """``objects``: of the resources in ``SERVED``, also finished Workloads."""
    queues = {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}": find_text(each, "spec", "clusterQueue")
        for each in objects.get(LOCAL_QUEUES, ())
    }
    workloads = list(objects.get(WORKLOADS, ()))
    units = {}
    for each in workloads:
        queue = f"{each['metadata'].get('namespace')}/{find_text(each, 'spec', 'queueName')}"
        units[workload_key(each)] = workload_unit(each, queues.get(queue, ""))
    if past is None:
        ended = tuple(each for each in units.values() if each.ended_s is not None)
        past = Past(ended, arrivals_of([(units[workload_key(each)], [(WORKLOADS, each)]) for each in workloads]))
    return WorkloadState(
        now_s,
        tuple((resource, obj) for resource, _ in SERVED if resource != WORKLOADS for obj in objects.get(resource, ())),
        tuple(each for each in workloads if not _is_finished(each)),
        {key: _with_run(unit, past) for key, unit in units.items()},
        past.ended,
        past.arrivals,
    )


def _with_run(unit: Unit, past: Past) -> Unit:
    ran_s = past.ran_s.get(unit.key, 0.0)
    return msgspec.structs.replace(unit, ran_s=ran_s) if ran_s else unit


def _is_finished(workload: Object) -> bool:
    return conditions.is_true(find_items(workload, "status", "conditions"), FINISHED)


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace") or "", obj["metadata"]["name"]
