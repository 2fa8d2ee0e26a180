"""Small random clusters of queues and workloads from a seed, and random events in them.

A cluster has its own flavors, cohorts and queues, so that many of them are independent on one server. The next event
depends on the current state. Some clusters mix strategies, count pods, have admission checks, or have workloads that
were created in the same second.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from headgate.kube.timestamps import format_time
from kueue_builders import (
    START_S,
    a_cluster_queue,
    a_cohort,
    a_condition,
    a_flavor,
    a_local_queue,
    a_pod_set,
    a_workload,
)

Object = dict[str, Any]

API_VERSION = "kueue.x-k8s.io/v1beta2"
GPU = "example.com/gpu"
_STRATEGIES = ("BestEffortFIFO", "StrictFIFO")
_WITHIN = ("Never", "LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority")
_RECLAIM = ("Never", "LowerPriority", "Any", "Any")
_NEXT = ("MayStopSearch", "TryNextFlavor")
_STOPS = ("Hold", "HoldAndDrain", None, None)
_STATES = ("Ready", "Ready", "Ready", "Rejected", "Retry")
_TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
_TOLERATION = {"key": "dedicated", "operator": "Exists"}

Act = tuple[str, Object]
"""What to do (``plant``, ``finish``, ``delete``, ``resize``, ``stop``, ``check``), and the object to do it with."""


class RandomCluster:
    def __init__(self, number: int, seed: int) -> None:
        self.name = f"w{number:02}"
        self._chance = Random(f"{seed}/{number}")
        self._submitted = 0
        self._seconds = self._chance.sample(range(1000), 1000)
        self._strategies = _STRATEGIES if self._chance.random() < 0.25 else (self._chance.choice(_STRATEGIES),)
        self._has_memory = self._chance.random() < 0.4
        self._has_gpus = self._chance.random() < 0.3
        self.counts_pods = self._chance.random() < 0.35
        self._preempts = not self.counts_pods or self._chance.random() < 0.5
        self._check = f"{self.name}-check" if self._chance.random() < 0.25 else ""
        self.flavors = [f"{self.name}-{each}" for each in ("spot", "fixed", "old")[: self._chance.randint(1, 3)]]
        self._flavors = [self._flavor(at, name) for at, name in enumerate(self.flavors)]
        if self._has_gpus:
            self._flavors.append(typed("ResourceFlavor", a_flavor(f"{self.name}-gpu")))
        self.cohorts, self._parents = self._draw_cohorts()
        self.queues = {
            name: self._draw_queue(name)
            for name in (f"{self.name}-{each}" for each in "abcd"[: self._chance.randint(1, 4)])
        }

        self._locals = [typed("LocalQueue", a_local_queue(each, each, "default")) for each in self.queues]

    def objects(self) -> list[Object]:
        """What is there before anything happens."""
        checks = [typed("AdmissionCheck", _an_active_check(self._check))] if self._check else []
        return [*self._flavors, *checks, *self.cohorts, *self.queues.values(), *self._locals]

    def next_act(self, workloads: Mapping[str, Object]) -> Act:
        """``workloads`` of this world, by name, as they are now."""
        chance = self._chance
        holding = sorted(name for name, each in workloads.items() if "admission" in (each.get("status") or {}))
        running = [name for name in holding if not _has(workloads[name], "Finished")]
        unchecked = [name for name in running if _is_unchecked(workloads[name])]
        waiting = sorted(name for name, each in workloads.items() if name not in holding and not _has(each, "Finished"))
        acts: dict[str, tuple[int, Callable[[], Object] | None]] = {
            "plant": (14, self._workload),
            "finish": (4, (lambda: workloads[chance.choice(running)]) if running else None),
            "delete": (1, (lambda: workloads[chance.choice([*waiting, *running])]) if waiting or running else None),
            "resize": (2, self._resized),
            "stop": (1, self._stopped),
            "check": (6, (lambda: self._checked(workloads[chance.choice(unchecked)])) if unchecked else None),
        }
        possible = {name: (weight, make) for name, (weight, make) in acts.items() if make is not None}
        (chosen,) = chance.choices(list(possible), [weight for weight, _ in possible.values()])
        return chosen, possible[chosen][1]()

    def _flavor(self, at: int, name: str) -> Object:
        taints = {"nodeTaints": [_TAINT]} if self._chance.random() < 0.2 else {}
        return typed("ResourceFlavor", a_flavor(name, {"tier": "ab"[at % 2]}, **taints))

    def _draw_cohorts(self) -> tuple[list[Object], list[str]]:
        x, y, top = (f"{self.name}-{each}" for each in ("x", "y", "top"))
        shape = self._chance.choice(("none", "flat", "flat", "own", "tree", "tree"))
        if shape == "none":
            return [], [""]
        if shape == "flat":
            return [], [x]
        own = {name: {"cpu": self._chance.randint(0, 3)} for name in self.flavors}
        if shape == "own":
            return [typed("Cohort", a_cohort(x, "", own))], [x, x, ""]
        return [
            typed("Cohort", a_cohort(x, top, own) if self._chance.random() < 0.5 else a_cohort(x, top)),
            typed("Cohort", a_cohort(y, top)),
            typed("Cohort", a_cohort(top)),
        ], [x, x, y, top]

    def _draw_queue(self, name: str) -> Object:
        chance = self._chance
        cohort = chance.choice(self._parents)
        flavors = self.flavors[: chance.randint(1, len(self.flavors))]
        resources = ["cpu", *(["memory"] if self._has_memory else []), *(["pods"] if self.counts_pods else [])]
        groups = [{flavor: {each: self._limits(each, bool(cohort)) for each in resources} for flavor in flavors}]
        if self._has_gpus:
            groups.append({f"{self.name}-gpu": {GPU: self._limits(GPU, bool(cohort))}})
        reclaim = chance.choice(_RECLAIM) if self._preempts else "Never"
        is_checked = bool(self._check) and chance.random() < 0.7
        borrow: Object = {}
        if reclaim != "Never" and chance.random() < 0.4:
            threshold = {"maxPriorityThreshold": chance.randint(0, 2)} if chance.random() < 0.5 else {}
            borrow = {"borrowWithinCohort": {"policy": "LowerPriority", **threshold}}
        return typed(
            "ClusterQueue",
            a_cluster_queue(
                name,
                *groups,
                **({"cohortName": cohort} if cohort else {}),
                queueingStrategy=chance.choice(self._strategies),
                **({"admissionChecksStrategy": {"admissionChecks": [{"name": self._check}]}} if is_checked else {}),
                preemption={
                    "withinClusterQueue": chance.choice(_WITHIN) if self._preempts else "Never",
                    "reclaimWithinCohort": reclaim,
                    **borrow,
                },
                flavorFungibility={"whenCanBorrow": chance.choice(_NEXT), "whenCanPreempt": chance.choice(_NEXT)},
            ),
        )

    def _limits(self, resource: str, is_shared: bool) -> Any:
        chance = self._chance
        unit, most = ("Gi", 8) if resource == "memory" else ("", 10 if resource == "pods" else 6)
        nominal = chance.randint(min(1, most), most)
        borrowing = chance.randint(0, 4) if is_shared and chance.random() < 0.4 else None
        lending = chance.randint(0, nominal) if is_shared and chance.random() < 0.3 else None
        return tuple(None if each is None else f"{each}{unit}" for each in (nominal, borrowing, lending))

    def _resized(self) -> Object:
        """A queue with other quotas of its first resource."""
        name = self._chance.choice(sorted(self.queues))
        queue = self.queues[name]
        for flavor in queue["spec"]["resourceGroups"][0]["flavors"]:
            first = flavor["resources"][0]
            if "lendingLimit" not in first:
                first["nominalQuota"] = str(self._chance.randint(0, 7))
        return queue

    def _stopped(self) -> Object:
        """A queue of either kind with another stop policy."""
        queue = self._chance.choice([*self.queues.values(), *self._locals])
        queue["spec"]["stopPolicy"] = self._chance.choice(_STOPS)
        return queue

    def _checked(self, workload: Object) -> Object:
        return {**workload, "state": self._chance.choice(_STATES)}

    def _workload(self) -> Object:
        chance = self._chance
        self._submitted += 1
        name = f"{self.name}-{self._submitted:02}"
        sets = [self._pod_set(f"set{at}") for at in range(1 if chance.random() < 0.75 else 2)]
        if self._submitted == 2 and self._has_gpus and self._strategies == _STRATEGIES[:1]:
            sets = [a_pod_set("greedy", 1, {"cpu": 90, GPU: 90})]  # more than there is, of both groups
        if chance.random() < 0.2 and sets[0]["count"] > 1:
            sets[0]["minCount"] = chance.randint(1, sets[0]["count"])
        wire = a_workload(
            name,
            *sets,
            queue=chance.choice(sorted(self.queues)),
            namespace="default",
            priority=chance.choice((0, 0, 1, 1, 2, 3)) + self._submitted // 4,
        )
        del wire["status"]
        wire["metadata"]["uid"] = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        if self._submitted > 1 and chance.random() < 0.15:
            self._seconds[self._submitted] = self._seconds[self._submitted - 1]
        wire["metadata"]["creationTimestamp"] = format_time(START_S + self._seconds[self._submitted])
        return typed("Workload", wire)

    def _pod_set(self, name: str) -> Object:
        chance = self._chance
        requests: dict[str, Any] = {"cpu": chance.choice((1, 1, 2, 2, 3, "500m"))}
        if self._has_memory and chance.random() < 0.7:
            requests["memory"] = chance.choice(("1Gi", "2Gi", "512Mi"))
        if self._has_gpus and chance.random() < 0.5:
            requests[GPU] = 1
        more: Object = {}
        if chance.random() < 0.6:
            more["tolerations"] = [_TOLERATION]
        if chance.random() < 0.1:
            more["nodeSelector"] = {"tier": chance.choice("ab")}
        return a_pod_set(name, chance.choice((1, 1, 2, 2, 3)), requests, **more)


def typed(kind: str, wire: Object) -> Object:
    """With what an API server would have given it."""
    name = f"{kind}/{wire['metadata']['name']}"
    given = {
        "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, name)),
        "creationTimestamp": format_time(START_S),
        "generation": 1,
    }
    return {"apiVersion": API_VERSION, "kind": kind, **wire, "metadata": {**given, **wire["metadata"]}}


def _an_active_check(name: str) -> Object:
    active = a_condition("Active", reason="Active", message="The admission check is active")
    return {
        "metadata": {"name": name},
        "spec": {"controllerName": "example.com/check"},
        "status": {"conditions": [active]},
    }


def _is_unchecked(wire: Object) -> bool:
    checks = (wire.get("status") or {}).get("admissionChecks") or ()
    return any(each["state"] == "Pending" for each in checks)


def _has(wire: Object, type_: str) -> bool:
    conditions = (wire.get("status") or {}).get("conditions") or ()
    return any(each["type"] == type_ and each["status"] == "True" for each in conditions)
