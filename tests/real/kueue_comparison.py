"""Compares what Kueue and Headgate report about one cluster, aspect by aspect.

``ON_PURPOSE`` lists the intended differences in texts; `docs/kueue.md` has them for users. Each is counted, and a run
fails in which one occurs more than twice as often as in the recorded runs. A different decision ends the comparison of
a cluster: `kueue_endings.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from real.kueue_and_headgate import View, conditions_of, is_
from real.kueue_messages import LACKING, Clause, agree_where_they_meet, are_true, clauses, fits_reason, nano
from real.kueue_messages import with_taints_as_written as written

Object = dict[str, Any]

_COUNTS = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
_USAGES = ("flavorsReservation", "flavorsUsage")
FACTOR: Final = 2


class Difference(msgspec.Struct, frozen=True):
    """``workload`` is Kueue's. Of our side: ``pending``, how many Workloads wait in a queue; ``leaving``, those of it
    that were deactivated and hold quota; ``stopped``, what can be said of the stopped queues of a Workload."""

    cluster: str
    name: str
    aspect: str
    kueue: Any
    ours: Any
    workload: Mapping[str, Any] = {}
    pending: int = -1
    leaving: tuple[Mapping[str, Any], ...] = ()
    stopped: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.name} {self.aspect}:\n    Kueue    {self.kueue}\n    Headgate {self.ours}"


class Purpose(msgspec.Struct, frozen=True):
    """An intended difference: the reason, how it is recognised, and its counts in five recorded runs."""

    name: str
    why: str
    covers: Callable[[Difference], bool]
    met: tuple[int, ...]

    @property
    def at_most(self) -> int:
        """One that was never met may be, by chance: twice."""
        return FACTOR * max(*self.met, 1)


def _by_reason(found: Difference) -> bool:
    """Only the reason of an unmet QuotaReserved differs, and ours is one that the message can have."""
    told = _told(found)
    return told is not None and written(found.kueue[2]) == found.ours[2]


def _by_taint(found: Difference) -> bool:
    return _by_reason(found) and written(found.kueue[2]) != found.kueue[2]


def _by_staleness(found: Difference) -> bool:
    """Ours is the number of those that wait."""
    is_count = found.name.startswith("LocalQueue") and found.aspect == "pendingWorkloads"
    return is_count and found.ours == found.pending


def _by_group(found: Difference) -> bool:
    """Of one pod set, both name what is in the way, of different resources and flavors."""
    told = _told(found)
    if told is None or len({each.pod_set for side in told for each in side}) > 1:
        return False
    resources, flavors = (
        [{getattr(each, part) for each in side} - {""} for side in told] for part in ("resource", "flavor")
    )
    return any(resources) and not resources[0] & resources[1] and not flavors[0] & flavors[1]


def _by_stop(found: Difference) -> bool:
    """A queue of the workload is stopped, and we say so; Kueue has another reason, or still says what it said."""
    if found.aspect != "QuotaReserved" or not found.kueue or not found.ours:
        return False
    is_told = found.ours[:2] == ("False", "Suspended") and found.ours[2] in found.stopped
    return is_told and (
        found.kueue == ("False", "Inadmissible", found.ours[2]) or found.kueue[:2] == ("False", "Pending")
    )


def _by_leaving(found: Difference) -> bool:
    """The queue counts with us, and not with Kueue, what deactivated workloads hold, and nothing more; when they hold
    nothing any more, we say that they are deactivated."""
    if found.aspect == "QuotaReserved" and found.kueue and found.kueue[0] == "False":
        return bool(found.ours == _DEACTIVATED) and found.workload["spec"].get("active") is False
    if not found.leaving or found.name.startswith("Workload"):
        return False
    if found.aspect == "reservingWorkloads":
        return bool(found.ours - found.kueue == len(found.leaving))
    if found.aspect != "flavorsReservation":
        return False
    held = Counter[tuple[str, str]]()
    for each in found.leaving:
        for given in each["status"]["admission"]["podSetAssignments"]:
            for resource, amount in given["resourceUsage"].items():
                held[given["flavors"][resource], resource] += nano(amount)
    kueue, ours = _totals(found.kueue), _totals(found.ours)
    return {*kueue} == {*ours} and all(ours[fr] - kueue[fr] == held[fr] for fr in ours)


def _totals(usages: list[Object]) -> dict[tuple[str, str], int]:
    return {(each["name"], one["name"]): nano(one["total"]) for each in usages or () for one in each["resources"]}


def _by_admitted(found: Difference) -> bool:
    """An Admitted that is false says what the workload lacks: the reservation, or checks."""
    if found.aspect != "Admitted" or (found.kueue is not None and found.kueue != _UNRESERVED):
        return False
    checks = (found.workload.get("status") or {}).get("admissionChecks") or ()
    if not is_(found.workload, "QuotaReserved"):
        return bool(found.ours == _UNRESERVED)
    return bool(found.ours == _UNCHECKED) and any(each["state"] != "Ready" for each in checks)


def _by_part(found: Difference) -> bool:
    """Of several pod sets, the two sides tell different parts of the search."""
    told = _told(found)
    return told is not None and len(found.workload["spec"]["podSets"]) > 1 and agree_where_they_meet(*told)


def _by_number(found: Difference) -> bool:
    """But for what is lacking now they say the same."""
    told = _told(found)
    if told is None:
        return False
    kueue, ours = ({each for each in side if each.kind != LACKING} for side in told)
    return kueue == ours


def _by_silence(found: Difference) -> bool:
    told = clauses(found.ours[2]) if found.aspect == "QuotaReserved" and found.kueue is None and found.ours else None
    return bool(told) and found.ours[0] == "False" and fits_reason(found.ours[1], told or ())


def _told(found: Difference) -> tuple[list[Clause], list[Clause]] | None:
    """What both sides say of a workload that waits for quota, if all of it is known and true."""
    if found.aspect != "QuotaReserved" or not found.kueue or not found.ours:
        return None
    if (found.kueue[0], found.kueue[1], found.ours[0]) != ("False", "Pending", "False"):
        return None
    kueue, ours = clauses(found.kueue[2]), clauses(found.ours[2])
    if kueue is None or ours is None or not fits_reason(found.ours[1], ours):
        return None
    return (kueue, ours) if are_true([*kueue, *ours], found.workload) else None


_DEACTIVATED: Final = ("False", "Deactivated", "The workload is deactivated")
_UNRESERVED: Final = ("False", "NoReservation", "The workload has no reservation")
_UNCHECKED: Final = ("False", "UnsatisfiedAdmissionChecks", "The workload has not all checks ready")

ON_PURPOSE: Final = (
    Purpose(
        "taints", "a taint is written as kubectl writes it, not as a Go value", _by_taint, (128, 128, 128, 128, 128)
    ),
    Purpose(
        "reasons",
        "Kueue 0.19 says Pending unless UnadmittedWorkloadsObservability is on",
        _by_reason,
        (623, 621, 623, 623, 622),
    ),
    Purpose(
        "stopped queues",
        "Suspended is also behind UnadmittedWorkloadsObservability",
        _by_stop,
        (145, 145, 145, 145, 145),
    ),
    Purpose(
        "deactivated",
        "a deactivated workload holds its quota until it is given back",
        _by_leaving,
        (22, 22, 22, 22, 22),
    ),
    Purpose(
        "not admitted",
        "so is an Admitted that is false though it was never true",
        _by_admitted,
        (151, 151, 151, 151, 151),
    ),
    Purpose(
        "silence", "a workload that joins a shape that does not fit is told so at once", _by_silence, (0, 0, 0, 0, 0)
    ),
    Purpose(
        "numbers",
        "what is lacking is as of the last look, and both look at different times",
        _by_number,
        (26, 26, 26, 26, 26),
    ),
    Purpose("parts", "of a search over pod sets at different flavors both tell some part", _by_part, (4, 6, 4, 4, 5)),
    Purpose(
        "groups", "of several groups that lack something Kueue names one by a hash", _by_group, (28, 28, 28, 28, 28)
    ),
    Purpose(
        "stale counts",
        "Kueue counts the pending of a LocalQueue at the next event",
        _by_staleness,
        (179, 217, 197, 201, 199),
    ),
)


def purpose_of(found: Difference) -> str:
    """The name of the purpose, or nothing."""
    return next((each.name for each in ON_PURPOSE if each.covers(found)), "")


def compare(cluster: str, kueue: View, ours: View) -> list[Difference]:
    """Of one world; names begin with the world's."""
    found: list[Difference] = []
    for kind, read in (("Workload", _workload), ("ClusterQueue", _queue), ("LocalQueue", _queue)):
        prefix = f"{cluster}-"
        sides = [
            {name: read(each) for name, each in view[kind].items() if name.startswith(prefix)} for view in (kueue, ours)
        ]
        for name in sorted({*sides[0], *sides[1]}):
            theirs, mine = (side.get(name, {}) for side in sides)
            wire = kueue["Workload"].get(name, {}) if kind == "Workload" else {}
            about = _about(kind, name, ours)
            for aspect in sorted({*theirs, *mine}):
                values = (theirs.get(aspect), mine.get(aspect))
                if values[0] != values[1]:
                    found.append(Difference(cluster, f"{kind} {name}", aspect, *values, wire, **about))
    return found


def _about(kind: str, name: str, view: View) -> dict[str, Any]:
    """What our side shows of the object's surroundings. A LocalQueue has the name of its ClusterQueue."""
    if kind == "Workload":
        queue = view["Workload"].get(name, {}).get("spec", {}).get("queueName", "")
        stopped = [
            f"{each} {queue} is inactive"
            for each in ("LocalQueue", "ClusterQueue")
            if view[each].get(queue, {}).get("spec", {}).get("stopPolicy", "None") != "None"
        ]
        return {"stopped": frozenset(stopped)}
    inside = [each for each in view["Workload"].values() if each["spec"]["queueName"] == name]
    active = [each for each in inside if each["spec"].get("active", True)]
    return {
        "pending": sum(not is_(each, "QuotaReserved") and not is_(each, "Finished") for each in active),
        "leaving": tuple(each for each in inside if each not in active and is_(each, "QuotaReserved")),
    }


def _workload(wire: Mapping[str, Any]) -> Object:
    status = wire.get("status") or {}
    found: Object = {"admission": status.get("admission"), "active": wire["spec"].get("active", True)}
    for each in status.get("admissionChecks") or ():
        found[f"check {each['name']}"] = (each["state"], each.get("message", ""))
    for type_, each in conditions_of(wire).items():
        found[type_] = (each["status"], each["reason"], each["message"])
    return found


def _queue(wire: Mapping[str, Any]) -> Object:
    status = wire.get("status") or {}
    found: Object = {each: status.get(each, 0) for each in _COUNTS}
    found |= {each: status.get(each) for each in _USAGES}
    for type_, one in conditions_of(wire).items():
        found[type_] = (one["status"], one["reason"], one["message"])
    return found
