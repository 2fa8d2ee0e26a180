"""Parts of a Job as error messages show them: with the names and the order of Go's fields, and with empty fields.

``kube/validation/go_values.py`` explains this notation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

Object = dict[str, Any]


def _raw(value: Any) -> Any:
    """JSON that is inserted into a message as it is. Otherwise the fields would be sorted, which Go does not do."""
    return msgspec.Raw(msgspec.json.encode(value))


def _list(values: Sequence[Any] | None) -> list[Any] | None:
    return list(values) if values else None


def pod_failure_policy(policy: Object | None) -> Any:
    if policy is None:
        return None
    return _raw({"Rules": [_failure_rule(each) for each in policy.get("rules") or ()]})


def _failure_rule(rule: Object) -> Object:
    exit_codes = rule.get("onExitCodes")
    patterns = [
        {"Type": each.get("type", ""), "Status": each.get("status", "")} for each in rule.get("onPodConditions") or ()
    ]
    return {
        "Action": rule.get("action", ""),
        "OnExitCodes": None
        if exit_codes is None
        else {
            "ContainerName": exit_codes.get("containerName"),
            "Operator": exit_codes.get("operator", ""),
            "Values": _list(exit_codes.get("values")),
        },
        "OnPodConditions": _list(patterns),
    }


def success_policy(policy: Object | None) -> Any:
    if policy is None:
        return None
    rules = [
        {"SucceededIndexes": each.get("succeededIndexes"), "SucceededCount": each.get("succeededCount")}
        for each in policy.get("rules") or ()
    ]
    return _raw({"Rules": _list(rules)})


def uncounted_terminated_pods(pods: Object) -> Any:
    return _raw({"Succeeded": _list(pods.get("succeeded")), "Failed": _list(pods.get("failed"))})
