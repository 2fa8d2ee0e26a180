"""Reconciles an existing default role or binding with the current bootstrap policy.

Missing rules and subjects are added, nothing is removed, and an object with the annotation
``rbac.authorization.kubernetes.io/autoupdate: "false"`` is left alone. A binding to another role is deleted and created
again, because the role of a binding cannot change.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from headgate.apiserver.authz.bootstrap_policy.policy_objects import AUTO_UPDATE
from headgate.apiserver.authz.rules import rules_of, uncovered

Object = dict[str, Any]


class RoleReconciliation(msgspec.Struct, frozen=True):
    """What to do with the stored object: nothing, replace it by ``obj``, or delete it and create ``obj``."""

    action: Literal["keep", "update", "recreate"]
    obj: Object


def reconcile(existing: Object, expected: Object) -> RoleReconciliation:
    metadata = existing["metadata"]
    if (metadata.get("annotations") or {}).get(AUTO_UPDATE) == "false":
        return RoleReconciliation("keep", existing)
    if "roleRef" in expected and existing.get("roleRef") != expected["roleRef"]:
        return RoleReconciliation("recreate", expected)
    merged = {**existing, "metadata": dict(metadata)}
    for field in ("labels", "annotations"):
        merged["metadata"][field] = {**expected["metadata"][field], **(metadata.get(field) or {})}
    if "roleRef" in expected:
        present = existing.get("subjects") or []
        missing = [each for each in expected.get("subjects") or () if each not in present]
        if missing:
            merged["subjects"] = [*present, *missing]
    else:
        merged |= _missing_rights(existing, expected)
    return RoleReconciliation("keep" if merged == existing else "update", merged)


def _missing_rights(existing: Object, expected: Object) -> Object:
    changed: Object = {}
    missing = uncovered(rules_of(existing), rules_of(expected))
    if missing:
        changed["rules"] = [*(existing.get("rules") or ()), *(rule.wire() for rule in missing)]
    required = (expected.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    present = (existing.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    absent = [each for each in required if each not in present]
    if absent:
        changed["aggregationRule"] = {"clusterRoleSelectors": [*present, *absent]}
    elif not required and present:
        changed["aggregationRule"] = None
    return changed
