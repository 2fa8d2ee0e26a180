"""Printers of role bindings, admission webhooks and admission policies."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.printers.printer import (
    AGE,
    NAME,
    UNSET,
    Cells,
    Object,
    Printer,
    age_of,
    integer,
    name_of,
    part,
    text,
    wide,
)


def _binding_cells(obj: Object, now: float) -> Cells:
    role, subjects = part(obj, "roleRef"), obj.get("subjects") or ()
    accounts = [
        f"{each.get('namespace') or ''}/{each.get('name') or ''}"
        for each in subjects
        if each.get("kind") == "ServiceAccount"
    ]
    return [
        name_of(obj),
        f"{role.get('kind') or ''}/{role.get('name') or ''}",
        age_of(obj, now),
        *(
            ", ".join(each.get("name") or "" for each in subjects if each.get("kind") == kind)
            for kind in ("User", "Group")
        ),
        ", ".join(accounts),
    ]


def _webhook_cells(obj: Object, now: float) -> Cells:
    return [name_of(obj), len(obj.get("webhooks") or ()), age_of(obj, now)]


def _policy_cells(obj: Object, now: float) -> Cells:
    spec = part(obj, "spec")
    kind = spec.get("paramKind")
    shown = UNSET if kind is None else f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}"
    return [name_of(obj), len(spec.get("validations") or ()), shown, age_of(obj, now)]


def _policy_binding_cells(obj: Object, now: float) -> Cells:
    spec = part(obj, "spec")
    return [name_of(obj), spec.get("policyName") or "", _parameter(spec.get("paramRef")), age_of(obj, now)]


def _parameter(reference: Object | None) -> str:
    if reference is None:
        return UNSET
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    selector = reference.get("selector")
    return UNSET if selector is None else _go_selector(selector)


def _go_selector(selector: Object) -> str:
    """A selector in the notation of Go's generated ``String`` methods, which kube-apiserver uses in this column."""
    labels = "".join(f"{key}: {value}," for key, value in sorted(part(selector, "matchLabels").items()))
    requirements = "".join(
        f"LabelSelectorRequirement{{Key:{each.get('key') or ''},Operator:{each.get('operator') or ''},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}"
    )


ROLE_BINDING: Final = Printer(
    (
        NAME,
        text("Role", "What it grants."),
        AGE,
        wide("Users", "Users it grants to."),
        wide("Groups", "Groups it grants to."),
        wide("ServiceAccounts", "Service accounts it grants to."),
    ),
    _binding_cells,
)
WEBHOOKS: Final = Printer((NAME, integer("Webhooks", "How many webhooks it names."), AGE), _webhook_cells)
ADMISSION_POLICY: Final = Printer(
    (
        NAME,
        integer("Validations", "How many rules it has."),
        text("ParamKind", "Kind of its parameters."),
        AGE,
    ),
    _policy_cells,
)
ADMISSION_POLICY_BINDING: Final = Printer(
    (
        NAME,
        text("PolicyName", "The policy that it applies."),
        text("ParamRef", "Where its parameters are."),
        AGE,
    ),
    _policy_binding_cells,
)
