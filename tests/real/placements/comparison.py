"""Our cycle on a cluster that kube-scheduler has played: the same nodes feasible, the same scores, the same reasons.

Pods are put to our cycle in the order in which kube-scheduler tried them, and after each its choice is taken over, so
that the next pod meets the same cluster on both sides: of equally good nodes it takes one by chance.
"""

from __future__ import annotations

import json
from typing import Any

from clusters import Cluster
from headgate.scheduling.framework.interface import ScheduleResult
from real.placements.cases import Case
from real.placements.kube_scheduler_run import RESOURCES, SchedulingResult
from real.placements.profiles import PROFILES
from real.placements.scheduler_log import Attempt

Object = dict[str, Any]


def find_difference(case: Case, result: SchedulingResult) -> str:
    """What differs at the first pod that is decided differently; empty if there is none."""
    cluster = Cluster(*result.nodes, preempts=True, **PROFILES[case.profile])
    watched = cluster.cluster.watched()
    for each in result.around:
        if RESOURCES[each["kind"]] in watched:
            cluster.cluster.applied(RESOURCES[each["kind"]], each)
    for real, changed in result.turns:
        wire = result.pods[real.pod]
        difference = _compare(cluster, wire, real)
        if difference:
            return f"pod {real.pod}: {difference}\n{_report(result, real, wire)}"
        if real.node:
            pod = cluster.bind(wire, real.node)
            refused = [said for each in cluster.reserving if (said := each.reserve(pod, real.node))]
            if refused:
                return f"pod {real.pod}: cannot be given {real.node}: {refused}"
        for each in changed:
            cluster.matrix.pod_applied(cluster.pod(each))
    return ""


def _compare(cluster: Cluster, wire: Object, real: Attempt) -> str:
    pod = cluster.pod(wire)
    scores = cluster.cycle.scores(pod)
    ours = cluster.cycle.place(pod)
    if not real.node:
        if isinstance(ours, ScheduleResult):
            return f"has no place ({real.message}), and goes to {ours.node_name} here"
        if ours.message != real.message:
            return f"is told {real.message!r}, and here {ours.message!r}"
        found = (
            (ours.nominated.node_name, {each.key for each in ours.nominated.victims}) if ours.nominated else ("", set())
        )
        wanted = (real.promised, real.victims)
        return "" if found == wanted else f"preempts {wanted}, and here {found}"
    if not isinstance(ours, ScheduleResult):
        return f"goes to {real.node}, and has no place here: {ours.message}"
    if real.scores:
        if scores != real.totals():
            return f"has the scores {real.totals()}, and here {scores}"
        best = [name for name, score in scores.items() if score == max(scores.values())]
        return "" if ours.node_name in best else f"is best on {best}, and goes to {ours.node_name} here"
    return "" if list(scores) == [real.node] else f"fits only on {real.node}, and here on {sorted(scores)}"


def _report(result: SchedulingResult, real: Attempt, wire: Object) -> str:
    lines = [f"scores by plugin: {json.dumps(real.scores)}", f"pod: {_short(wire)}"]
    lines += (f"node: {_short(each)}" for each in result.nodes)
    attempts = [each for each, _ in result.turns]
    earlier = attempts[: attempts.index(real)]
    lines += (f"before it, on {each.node}: {_short(result.pods[each.pod])}" for each in earlier if each.node)
    return "\n".join(lines)


def _short(wire: Object) -> str:
    metadata = {name: wire["metadata"].get(name) for name in ("namespace", "name", "labels")}
    status = {name: wire["status"].get(name) for name in ("allocatable", "images") if name in wire["status"]}
    return json.dumps({"metadata": metadata, "spec": wire["spec"], "status": status})
