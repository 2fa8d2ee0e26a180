"""What two clusters must agree on at a checkpoint, from what their APIs show: pods, their owners, events.

Of owners everything is compared except the identity of an object on one server. Of pods everything that a controller
sets (metadata, spec) is compared, and the parts of the status that controllers read. Nodes and placements are not
compared here. This module is pure; `scenario_cluster.py` reads and records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from real.workloads.names import Names

Object = dict[str, Any]

IDENTITY = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink", "namespace")
TYPED = "kubectl.kubernetes.io/last-applied-configuration"
ELSEWHERE = frozenset({"default-scheduler", "headgate-scheduler", "headgate", "volcano", "kubelet"})
"""Components whose Events other suites check."""
POD_CONDITIONS = frozenset({"DisruptionTarget"})
NODE_CONDITIONS = ("type", "status", "reason", "message")


@dataclass(frozen=True)
class Look:
    """`since`: the stop at which a pod, by uid, was seen first; `unsure`: types of conditions whose reason is open."""

    since: Mapping[str, str]
    unsure: frozenset[str] = frozenset()


def snapshot(found: Mapping[str, Iterable[Object]], names: Names, look: Look) -> Object:
    shown: Object = {}
    for plural, objects in found.items():
        see = _SEEN.get(plural, owner)
        shown[plural] = _in_order(names.value(see(each, look)) for each in objects)
    return shown


def events(found: Iterable[Object], names: Names, words: bool) -> list[Any]:
    """Each kind of event once; `words`: by what it says, too."""
    return _in_order({_event(each, names, words) for each in found})


def owner(obj: Object, look: Look) -> Object:
    status = obj.get("status")
    rest = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    return {
        "metadata": _metadata(obj["metadata"]),
        **rest,
        **({} if status is None else {"status": _status(status, look.unsure)}),
    }


def pod(obj: Object, look: Look) -> Object:
    status, spec = obj.get("status") or {}, dict(obj["spec"])
    spec.pop("nodeName", None)
    if "volumes" in spec:  # those that claims are made for come in the order of one of Go's maps
        spec["volumes"] = _in_order(spec["volumes"])
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled", {})
    return {
        "metadata": _metadata(obj["metadata"]),
        "spec": spec,
        "phase": status.get("phase"),
        "why": [status.get("reason"), status.get("message")],
        "ready": conditions.get("Ready", {}).get("status", "False"),
        "held": scheduled.get("reason") if scheduled.get("status") == "False" else None,
        "restarts": sum(each.get("restartCount", 0) for each in status.get("containerStatuses") or ()),
        "conditions": _conditions([each for name, each in conditions.items() if name in POD_CONDITIONS]),
        "since": look.since.get(obj["metadata"]["uid"]),
    }


def node(obj: Object, look: Look) -> Object:
    spec, status = obj["spec"], obj.get("status") or {}
    taints = [{key: value for key, value in each.items() if key != "timeAdded"} for each in spec.get("taints") or ()]
    conditions = [{key: each.get(key) for key in NODE_CONDITIONS} for each in status.get("conditions") or ()]
    return {
        "name": obj["metadata"]["name"],
        "unschedulable": spec.get("unschedulable", False),
        "taints": _in_order(taints),
        "conditions": _in_order(conditions),
    }


def replica_set(obj: Object, look: Look) -> Object:
    """In how many steps a Deployment sized it is a matter of chance, and so is how often it changed."""
    shown = owner(obj, look)
    if obj["metadata"].get("ownerReferences"):
        shown["metadata"].pop("generation", None)
        shown.get("status", {}).pop("observedGeneration", None)
    return shown


def volume(obj: Object, look: Look) -> Object:
    ref = obj["spec"].get("claimRef")
    if ref is not None:
        ref = {key: value for key, value in ref.items() if key not in ("resourceVersion", "namespace")}
        obj = {**obj, "spec": {**obj["spec"], "claimRef": ref}}
    return owner(obj, look)


_SEEN = {"pods": pod, "nodes": node, "replicasets": replica_set, "persistentvolumes": volume}


def _metadata(metadata: Object) -> Object:
    shown = {key: value for key, value in metadata.items() if key not in IDENTITY}
    if "annotations" in shown:
        shown["annotations"] = {key: value for key, value in shown["annotations"].items() if key != TYPED}
    if shown.pop("deletionTimestamp", None):
        shown["going"] = True
    return shown


def _status(status: Object, unsure: frozenset[str]) -> Object:
    shown = dict(status)
    if status.get("conditions"):
        shown["conditions"] = _conditions(status["conditions"], unsure)
    if isinstance(status.get("active"), list):  # references of a CronJob; elsewhere it is a number
        shown["active"] = [{key: each[key] for key in each if key != "resourceVersion"} for each in status["active"]]
    return shown


def _conditions(conditions: Iterable[Object], unsure: frozenset[str] = frozenset()) -> list[Object]:
    shown = [
        {"type": each["type"], "status": each["status"]} if each["type"] in unsure else each for each in conditions
    ]
    return sorted(shown, key=lambda each: str(each["type"]))


def _event(event: Object, names: Names, words: bool) -> tuple[str, ...]:
    about = event["involvedObject"]
    said = (names.text(event.get("message", "")), names.text(about.get("name", ""))) if words else ()
    return (event_source(event), about["kind"], event["type"], event["reason"], *said)


def event_source(event: Object) -> str:
    return str(event.get("reportingComponent") or (event.get("source") or {}).get("component") or "")


def _in_order(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda each: json.dumps(each, sort_keys=True, default=str))
