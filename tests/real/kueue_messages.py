"""Parses the message of a pending Workload clause by clause and checks whether each clause is true.

Kueue and Headgate may report different parts of one search for flavors. Both parts have to be true: a request is that
of its pod set, and it exceeds the capacity that is named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube.quantity import Quantity, parse

Object = Mapping[str, Any]

_SECTION: Final = re.compile(r"couldn't assign flavors to pod set (?P<set>\S+): (?P<body>.*)")
_CLAUSE: Final = re.compile(
    r"insufficient quota for (?P<over>\S+) in flavor (?P<over_flavor>[^\s,]+), previously considered podsets requests "
    r"\((?P<before>\S+)\) \+ current podset request \((?P<asked>\S+)\) > maximum capacity \((?P<most>\S+)\)"
    r"|insufficient unused quota for (?P<lacking>\S+) in flavor (?P<lacking_flavor>[^\s,]+), (?P<more>\S+) more needed"
    r"|untolerated taint (?P<taint>\S+) in flavor (?P<taint_flavor>[^\s,]+)"
    r"|flavor (?P<affinity_flavor>[^\s,]+) doesn't match node affinity"
)
_GO_TAINT: Final = re.compile(r"\{(\S+) (\S*) (\S+) <nil>\}")
_PENDING: Final = re.compile(r"\. Pending the preemption of \d+ workload\(s\)$")

TOO_MUCH, LACKING, TAINT, AFFINITY = "too much", "lacking", "taint", "affinity"


class Clause(msgspec.Struct, frozen=True):
    """``before``, ``asked``, ``most``: of a request that exceeds the capacity; ``more``: what is lacking now."""

    pod_set: str
    kind: str
    flavor: str
    resource: str = ""
    before: str = ""
    asked: str = ""
    most: str = ""
    more: str = ""

    @property
    def place(self) -> tuple[str, str, str]:
        return self.pod_set, self.flavor, self.resource


def with_taints_as_written(message: str) -> str:
    """Taints as kubectl writes them, where Kueue prints a Go value."""

    def written(taint: re.Match[str]) -> str:
        key, value, effect = taint.groups()
        return f"{key}={value}:{effect}" if value else f"{key}:{effect}"

    return _GO_TAINT.sub(written, message)


def clauses(message: str) -> list[Clause] | None:
    """None if there is anything in it that is not known."""
    found: list[Clause] = []
    for section in _PENDING.sub("", with_taints_as_written(message)).split("; "):
        opened = _SECTION.fullmatch(section)
        if opened is None:
            return None
        matches = list(_CLAUSE.finditer(opened["body"]))
        if ", ".join(each[0] for each in matches) != opened["body"]:
            return None
        found += [_clause(opened["set"], each) for each in matches]
    return found


def _clause(pod_set: str, match: re.Match[str]) -> Clause:
    if match["over"]:
        return Clause(
            pod_set, TOO_MUCH, match["over_flavor"], match["over"], match["before"], match["asked"], match["most"]
        )
    if match["lacking"]:
        return Clause(pod_set, LACKING, match["lacking_flavor"], match["lacking"], more=match["more"])
    if match["taint"]:
        return Clause(pod_set, TAINT, match["taint_flavor"])
    return Clause(pod_set, AFFINITY, match["affinity_flavor"])


def are_true(told: Sequence[Clause], workload: Object) -> bool:
    return all(_is_true(each, workload) for each in told)


def _is_true(clause: Clause, workload: Object) -> bool:
    pod_sets = {each["name"]: each for each in workload["spec"]["podSets"]}
    pod_set = pod_sets.get(clause.pod_set)
    if pod_set is None:
        return False
    if clause.kind == LACKING:
        return nano(clause.more) > 0
    if clause.kind != TOO_MUCH:
        return True
    before, asked, most = (nano(each) for each in (clause.before, clause.asked, clause.most))
    if before + asked <= most:
        return False
    if "minCount" not in pod_set and asked != _request(pod_set, clause.resource):
        return False
    earlier = list(pod_sets.values())[: list(pod_sets).index(clause.pod_set)]
    sums = {0, *(_request(each, clause.resource) for each in earlier)}
    return before in sums or any("minCount" in each for each in earlier)


def _request(pod_set: Object, resource: str) -> int:
    count = int(pod_set["count"])
    if resource == "pods":
        return count * 10**9
    (container,) = pod_set["template"]["spec"]["containers"]
    return count * nano(container["resources"]["requests"].get(resource, "0"))


def nano(text: str) -> int:
    parsed = parse(text)
    assert isinstance(parsed, Quantity), text
    return parsed.nano


def fits_reason(reason: str, told: Sequence[Clause]) -> bool:
    """Whether the reason of a condition is one that the clauses of its message can have."""
    kinds = {each.kind for each in told}
    match reason:
        case "ExceedsMaxQuota":
            return TOO_MUCH in kinds
        case "WaitingForQuota" | "WaitingForPreemptedWorkloads":
            return LACKING in kinds
        case "NoMatchingFlavor":
            return any(
                {each.kind for each in told if each.pod_set == name} <= {TAINT, AFFINITY}
                for name in {each.pod_set for each in told}
            )
        case _:
            return False


def agree_where_they_meet(kueue: Sequence[Clause], ours: Sequence[Clause]) -> bool:
    """What both say of one pod set, flavor and resource has the same request and capacity; a flavor that one side rules
    out by taint or affinity the other does not count quota of."""
    capacities = {each.place: (each.asked, each.most) for each in kueue if each.kind == TOO_MUCH}
    for each in ours:
        if each.kind == TOO_MUCH and capacities.get(each.place, (each.asked, each.most)) != (each.asked, each.most):
            return False
    for one, other in ((kueue, ours), (ours, kueue)):
        ruled_out = {(each.pod_set, each.flavor) for each in one if each.kind in (TAINT, AFFINITY)}
        if any((each.pod_set, each.flavor) in ruled_out for each in other if each.kind in (TOO_MUCH, LACKING)):
            return False
    return True
