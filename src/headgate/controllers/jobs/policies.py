"""The pod failure policy and the success policy of a Job.

Of the failure policy, the first rule that matches a failed pod decides. A pod that no rule matches counts towards the
back-off limit, as do all pods of a job without a policy. The success policy is met by the first rule that the succeeded
indexes satisfy. ``completion.py`` uses both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.jobs.indexes import CompletionIndexes
from headgate.controllers.jobs.job_pods import JobPod

Object = dict[str, Any]

IGNORE: Final = "Ignore"
FAIL_JOB: Final = "FailJob"
FAIL_INDEX: Final = "FailIndex"


class FailurePolicyMatch(msgspec.Struct, frozen=True):
    """``action``: that of the rule that matched; empty if none did. ``message``: why the whole job fails, for the
    action FailJob."""

    action: str = ""
    message: str = ""

    @property
    def counts(self) -> bool:
        """Whether the failure counts towards the back-off limits."""
        return self.action != IGNORE


_UNMATCHED: Final = FailurePolicyMatch()


def match_failure_policy(rules: Iterable[Object] | None, member: JobPod) -> FailurePolicyMatch:
    for number, rule in enumerate(rules or ()):
        if "onExitCodes" in rule:
            cause = _by_exit_code(member, rule["onExitCodes"])
        else:
            cause = _by_condition(member, rule.get("onPodConditions") or ())
        if cause is not None:
            action = rule["action"]
            text = f"{cause} matching {action} rule at index {number}" if action == FAIL_JOB else ""
            return FailurePolicyMatch(action, text)
    return _UNMATCHED


def _by_exit_code(member: JobPod, requirement: Object) -> str | None:
    status = member.pod.get("status") or {}
    required = requirement.get("containerName")
    matches = _OPERATORS.get(requirement.get("operator", ""))
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        ended = (each.get("state") or {}).get("terminated")
        code = 0 if ended is None else ended.get("exitCode", 0)
        if code == 0 or matches is None or (required is not None and required != each["name"]):
            continue
        if matches(code, requirement.get("values") or ()):
            return f"Container {each['name']} for pod {_pod_key(member)} failed with exit code {code}"
    return None


def _by_condition(member: JobPod, patterns: Iterable[Object]) -> str | None:
    required = {(each["type"], each.get("status", "True")) for each in patterns}
    for each in (member.pod.get("status") or {}).get("conditions") or ():
        if (each.get("type"), each.get("status")) in required:
            return f"Pod {_pod_key(member)} has condition {each['type']}"
    return None


def _pod_key(member: JobPod) -> str:
    return f"{member.pod['metadata'].get('namespace', '')}/{member.name}"


_OPERATORS: Final[dict[str, Callable[[int, Iterable[int]], bool]]] = {
    "In": lambda code, values: code in values,
    "NotIn": lambda code, values: code not in values,
}


_SuccessRule = dict[str, Any]


def met_success_policy(rules: Iterable[_SuccessRule], completions: int, succeeded: CompletionIndexes) -> str | None:
    """The message that names the rule, or ``None``."""
    if not succeeded:
        return None
    for number, rule in enumerate(rules):
        if _is_met(rule, completions, succeeded):
            return f"Matched rules at index {number}"
    return None


def _is_met(rule: _SuccessRule, completions: int, succeeded: CompletionIndexes) -> bool:
    needed: int | None = rule.get("succeededCount")
    text = rule.get("succeededIndexes")
    if text is None:
        return needed is not None and len(succeeded) >= needed
    required = CompletionIndexes.parse(text, completions)
    common = required.common(succeeded)
    return bool(required) and (common == len(required) or (needed is not None and common >= needed))
