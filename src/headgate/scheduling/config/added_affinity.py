"""The NodeAffinity in ``NodeAffinityArgs.addedAffinity``: its decoding and its validation.

Validation is weaker than the API server's for pods: terms without requirements are allowed and select nothing, and
weights are not checked.
"""

from __future__ import annotations

from typing import Final

from headgate.kube.field_errors import FieldErrors, invalid, not_supported
from headgate.kube.labels import check_requirement
from headgate.kube.node_affinity import preferred_scheduling_terms, read_node_selector
from headgate.kube.serializer.strict_decoding import Object, int32, list_of, record, text
from headgate.scheduling.config.types import NodeAffinityArgs

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

_REQUIREMENTS: Final = list_of(record({"key": text, "operator": text, "values": list_of(text)}))
_TERM: Final = record({"matchExpressions": _REQUIREMENTS, "matchFields": _REQUIREMENTS})
DECODER: Final = record(
    {
        REQUIRED: record({"nodeSelectorTerms": list_of(_TERM)}),
        PREFERRED: list_of(record({"weight": int32, "preference": _TERM})),
    }
)
_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt"}
_FIELD_OPERATORS: Final = ("In", "NotIn")


def check(affinity: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for i, term in enumerate(affinity.get(REQUIRED, {}).get("nodeSelectorTerms", ())):
        errors += _check_term(term or {}, f"{path}.{REQUIRED}.nodeSelectorTerms[{i}]")
    for i, preferred in enumerate(affinity.get(PREFERRED, ())):
        # A preferred term without weight is not validated.
        if preferred and preferred.get("weight"):
            errors += _check_term(preferred.get("preference", {}), f"{path}.{PREFERRED}[{i}]")
    return errors


def read(affinity: Object) -> NodeAffinityArgs:
    required = affinity.get(REQUIRED)
    preferred = preferred_scheduling_terms({"spec": {"affinity": {"nodeAffinity": affinity}}})
    return NodeAffinityArgs(
        None if required is None else read_node_selector(required), preferred if preferred.terms else None
    )


def _check_term(term: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for i, each in enumerate(term.get("matchExpressions", ())):
        item_path, written = f"{path}.matchExpressions[{i}]", (each or {}).get("operator", "")
        operator = _OPERATORS.get(written)
        if operator is None:
            errors.append(not_supported(f"{item_path}.operator", written, tuple(_OPERATORS)))
        else:
            errors += check_requirement((each or {}).get("key", ""), operator, _values(each), item_path)
    for i, each in enumerate(term.get("matchFields", ())):
        item_path, written = f"{path}.matchFields[{i}]", (each or {}).get("operator", "")
        if written not in _FIELD_OPERATORS:
            errors.append(not_supported(f"{item_path}.operator", written, _FIELD_OPERATORS))
        elif len(_values(each)) != 1:
            errors.append(invalid(f"{item_path}.values", _values(each), "must have one element"))
    return errors


def _values(requirement: Object | None) -> list[str]:
    return [each or "" for each in (requirement or {}).get("values", ())]
