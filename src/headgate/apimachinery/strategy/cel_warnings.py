"""Warnings about CEL expressions: the embedded API server stores them, but does not evaluate them.

Without a warning, a user who tests rules or policies would believe that they pass. The server warns when an expression
is new or has changed. It does not reject the object, because most published CustomResourceDefinitions have CEL rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Object = dict[str, Any]

_RULES: Final = "x-kubernetes-validations"
_NOT_EVALUATED: Final = "is not evaluated by the embedded API server"
_LIST_KEYS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE_KEYS: Final = ("items", "not", "additionalProperties")


def definition_warnings(new: Object, old: Object | None) -> list[str]:
    """One warning for each version of a CustomResourceDefinition whose rules are new."""
    before = {} if old is None else {each["name"]: _rules(each) for each in old["spec"].get("versions") or ()}
    found = []
    for index, version in enumerate(new["spec"].get("versions") or ()):
        rules = _rules(version)
        if rules and rules != before.get(version["name"]):
            rules_text = f"its {len(rules)} rules" if len(rules) > 1 else "its rule"
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            found.append(f"{path}: {_RULES} {_NOT_EVALUATED}: objects that violate {rules_text} are accepted")
    return found


def policy_warnings(new: Object, old: Object | None) -> list[str]:
    if old is not None and old.get("spec") == new.get("spec"):
        return []
    return [
        f"spec: an admission policy {_NOT_EVALUATED}: requests that violate it are not denied or audited and cause"
        " no warning"
    ]


def policy_binding_warnings(new: Object, old: Object | None) -> list[str]:
    if old is not None and old.get("spec") == new.get("spec"):
        return []
    return [f"spec.policyName: an admission policy {_NOT_EVALUATED}: its binding has no effect"]


def _rules(version: Object) -> list[Any]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    return [rule for each in _schemas(schema) for rule in each.get(_RULES) or ()]


def _schemas(root: Any) -> Iterator[Object]:
    """A schema and all schemas in it."""
    stack = [root]
    while stack:
        schema = stack.pop()
        if not isinstance(schema, dict):
            continue
        yield schema
        stack += [schema[key] for key in _SINGLE_KEYS if key in schema]
        for key in _LIST_KEYS:
            stack += schema.get(key) or ()
        stack += (schema.get("properties") or {}).values()
