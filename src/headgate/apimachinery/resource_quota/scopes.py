"""Which objects a ResourceQuota selects: its scopes and its scope selector, as one list of requirements."""

from __future__ import annotations

from typing import Any

import msgspec

Object = dict[str, Any]


class ScopeRequirement(msgspec.Struct, frozen=True):
    scope: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def selects(self, name: str) -> bool:
        """Whether an object with this class (an empty name: without a class) is selected."""
        match self.operator:
            case "In":
                return name in self.values
            case "NotIn":
                return name not in self.values
            case "DoesNotExist":
                return not name
            case _:
                return bool(name)


def requirements(quota: Object) -> list[ScopeRequirement]:
    spec = quota.get("spec") or {}
    found = [ScopeRequirement(scope) for scope in spec.get("scopes") or ()]
    for each in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        values = tuple(each.get("values") or ())
        found.append(ScopeRequirement(each.get("scopeName", ""), each.get("operator", ""), values))
    return found
