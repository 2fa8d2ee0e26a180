"""What a job's pod failure policy says about one failed pod.

The first rule that matches decides. A pod that no rule means counts towards the back-off limit, as do all pods of a
job without such a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from headgate.owners.jobs.members import Member

Object = dict[str, Any]

IGNORE: Final = "Ignore"
FAIL_JOB: Final = "FailJob"
FAIL_INDEX: Final = "FailIndex"


class Match(msgspec.Struct, frozen=True):
    """``action`` of the rule that matched, if any; ``message`` says why the whole job fails."""

    action: str = ""
    message: str = ""

    @property
    def counts(self) -> bool:
        """Whether the failure counts towards the limits."""
        return self.action != IGNORE


_UNMATCHED: Final = Match()


def match(rules: Iterable[Object] | None, member: Member) -> Match:
    for number, rule in enumerate(rules or ()):
        if "onExitCodes" in rule:
            cause = _by_exit_code(member, rule["onExitCodes"])
        else:
            cause = _by_condition(member, rule.get("onPodConditions") or ())
        if cause is not None:
            action = rule["action"]
            text = f"{cause} matching {action} rule at index {number}" if action == FAIL_JOB else ""
            return Match(action, text)
    return _UNMATCHED


def _by_exit_code(member: Member, requirement: Object) -> str | None:
    status = member.pod.get("status") or {}
    wanted = requirement.get("containerName")
    is_meant = _OPERATORS.get(requirement.get("operator", ""))
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        ended = (each.get("state") or {}).get("terminated")
        code = 0 if ended is None else ended.get("exitCode", 0)
        if code == 0 or is_meant is None or (wanted is not None and wanted != each["name"]):
            continue
        if is_meant(code, requirement.get("values") or ()):
            return f"Container {each['name']} for pod {_place(member)} failed with exit code {code}"
    return None


def _by_condition(member: Member, patterns: Iterable[Object]) -> str | None:
    meant = {(each["type"], each.get("status", "True")) for each in patterns}
    for each in (member.pod.get("status") or {}).get("conditions") or ():
        if (each.get("type"), each.get("status")) in meant:
            return f"Pod {_place(member)} has condition {each['type']}"
    return None


def _place(member: Member) -> str:
    return f"{member.pod['metadata'].get('namespace', '')}/{member.name}"


_OPERATORS: Final[dict[str, Callable[[int, Iterable[int]], bool]]] = {
    "In": lambda code, values: code in values,
    "NotIn": lambda code, values: code not in values,
}
