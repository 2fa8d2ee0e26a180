"""Selectors in access reviews. RBAC ignores them; only invalid ones are reported."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery import field_selectors
from headgate.kube import labels

Object = dict[str, Any]

_LABEL_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def selector_problems(attributes: Object) -> str:
    """The ``evaluationError`` of a review for its selectors."""
    found = []
    for name, bad in (("fieldSelector", _bad_field), ("labelSelector", _bad_label)):
        selector = attributes.get(name) or {}
        requirements = selector.get("requirements") or []
        broken = [each for each in requirements if bad(each)]
        if broken and len(broken) < len(requirements):
            found.append(f"spec.resourceAttributes.{name} partially ignored due to parse error")
        elif broken or _unreadable(name, selector.get("rawSelector", "")):
            found.append(f"spec.resourceAttributes.{name} ignored due to parse error")
    return "; ".join(found)


def _unreadable(name: str, text: str) -> bool:
    parse = field_selectors.parse_field_selector if name == "fieldSelector" else labels.parse_selector
    return bool(text) and isinstance(parse(text), str)


def _bad_field(requirement: Object) -> bool:
    return requirement.get("operator") not in ("In", "NotIn") or len(requirement.get("values") or ()) != 1


def _bad_label(requirement: Object) -> bool:
    operator = _LABEL_OPERATORS.get(requirement.get("operator", ""), "")
    return bool(labels.check_requirement(requirement.get("key", ""), operator, requirement.get("values") or ()))
