"""What Kueue and Headgate say about one world, aspect by aspect, and where they differ.

``ON_PURPOSE`` lists the differences that are meant to be; `docs/kueue.md` has them for users.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from typing import Any, Final

import msgspec

from real.kueue_twins import View, conditions_of

Object = dict[str, Any]

_COUNTS = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
_USAGES = ("flavorsReservation", "flavorsUsage")


class Difference(msgspec.Struct, frozen=True):
    world: str
    name: str
    aspect: str
    kueue: Any
    ours: Any
    is_restless: bool = False
    pod_sets: int = 1

    def __str__(self) -> str:
        return f"{self.name} {self.aspect}:\n    Kueue    {self.kueue}\n    Headgate {self.ours}"


class Purpose(msgspec.Struct, frozen=True):
    """A difference that is meant to be: why, and how it is told from others."""

    name: str
    why: str
    covers: Callable[[Difference], bool]
    is_chance: bool = False
    """Whether it shows depends on when Kueue looks, so that it need not be met."""


def _by_reason(found: Difference) -> bool:
    """Only the reason of an unmet QuotaReserved differs."""
    return _are_pending(found) and _TAINT.sub(_as_written, found.kueue[2]) == found.ours[2]


def _by_taint(found: Difference) -> bool:
    return _by_reason(found) and _TAINT.search(found.kueue[2]) is not None


def _by_staleness(found: Difference) -> bool:
    return found.name.startswith("LocalQueue") and found.aspect == "pendingWorkloads"


def _by_unrest(found: Difference) -> bool:
    return found.is_restless and _are_pending(found)


def _by_group(found: Difference) -> bool:
    """Both name what stands in the way, of different resource groups."""
    return _are_pending(found) and ("example.com/gpu" in found.kueue[2]) is not ("example.com/gpu" in found.ours[2])


def _by_part(found: Difference) -> bool:
    return _are_pending(found) and found.pod_sets > 1


def _by_number(found: Difference) -> bool:
    """But for what is lacking now they say the same."""
    if not _are_pending(found):
        return False
    kueue, ours = (
        sorted(_LACKS.sub("", _TAINT.sub(_as_written, each[2])).split(", ")) for each in (found.kueue, found.ours)
    )
    return [each for each in kueue if each] == [each for each in ours if each]


def _by_silence(found: Difference) -> bool:
    return found.aspect == "QuotaReserved" and found.kueue is None and found.ours[0] == "False"


def _are_pending(found: Difference) -> bool:
    if found.aspect != "QuotaReserved" or not found.kueue or not found.ours:
        return False
    return (found.kueue[0], found.kueue[1], found.ours[0]) == ("False", "Pending", "False") and found.ours[
        1
    ] in _REASONS


_LACKS: Final = re.compile(
    r"insufficient unused quota for \S+ in flavor \S+, \S+ more needed(, )?|podsets requests \(\S+\)"
)
_TAINT: Final = re.compile(r"\{(\S+) (\S*) (\S+) <nil>\}")
_REASONS: Final = {
    *("WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor", "WaitingForPreemptedWorkloads", "PendingEvaluation")
}

ON_PURPOSE: Final = (
    Purpose("taints", "a taint is written as kubectl writes it, not as a Go value", _by_taint),
    Purpose("reasons", "Kueue 0.19 says Pending unless UnadmittedWorkloadsObservability is on", _by_reason),
    Purpose(
        "silence",
        "who joins a shape that does not fit is told so; Kueue tells him when it looks at him",
        _by_silence,
        True,
    ),
    Purpose("numbers", "what is lacking now is as of the last look, and both look at different times", _by_number),
    Purpose(
        "parts",
        "pod sets are at different flavors: of such a search Kueue tells some part, Headgate the first",
        _by_part,
    ),
    Purpose(
        "unrest", "Kueue's search over pod sets may go round in circles, with other words each time", _by_unrest, True
    ),
    Purpose("groups", "of several groups that lack something Kueue names one by a hash, Headgate by name", _by_group),
    Purpose(
        "stale counts",
        "who waits in a LocalQueue is counted when he comes, in Kueue by the next event",
        _by_staleness,
        True,
    ),
)


def _as_written(taint: re.Match[str]) -> str:
    key, value, effect = taint.groups()
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def purpose_of(found: Difference) -> str:
    """The name of the purpose, or nothing."""
    return next((each.name for each in ON_PURPOSE if each.covers(found)), "")


def compare(world: str, kueue: View, ours: View, restless: Set[str] = frozenset()) -> list[Difference]:
    """Of one world; names begin with the world's. ``restless``: what Kueue writes again and again."""
    found: list[Difference] = []
    for kind, read in (("Workload", _workload), ("ClusterQueue", _queue), ("LocalQueue", _queue)):
        prefix = f"{world}-"
        sides = [
            {name: read(each) for name, each in view[kind].items() if name.startswith(prefix)} for view in (kueue, ours)
        ]
        for name in sorted({*sides[0], *sides[1]}):
            theirs, mine = (side.get(name, {}) for side in sides)
            label = f"{kind} {name}"
            for aspect in sorted({*theirs, *mine}):
                if theirs.get(aspect) != mine.get(aspect):
                    values = (theirs.get(aspect), mine.get(aspect))
                    sets = len(kueue[kind].get(name, {}).get("spec", {}).get("podSets", ()))
                    found.append(Difference(world, label, aspect, *values, name in restless, sets))
    return found


def _workload(wire: Mapping[str, Any]) -> Object:
    status = wire.get("status") or {}
    found: Object = {"admission": status.get("admission")}
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
