"""Options of the query string (and, for deletes, of the body), validated.

Each parser returns its options or the error for the client; a malformed number is a 400, an invalid combination is a
422. The verbs (``apiserver/verbs/``) apply the options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from headgate.apimachinery import api_errors, field_selectors
from headgate.kube import field_errors, labels, names
from headgate.kube.integers import read_integer
from headgate.kube.validation.object_meta import validate_field_manager

Query = Mapping[str, list[str]]

_MALFORMED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

EXACT: Final = "Exact"
NOT_OLDER_THAN: Final = "NotOlderThan"
_META_GROUP: Final = "meta.k8s.io"
_FIELD_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_PROPAGATION_POLICIES: Final = ("Foreground", "Background", "Orphan")


def parse_query(query: str) -> Query:
    """The values of each query parameter. As in Go, a pair that is malformed or has a semicolon is ignored."""
    if not query:
        return {}
    pairs = (pair for pair in query.split("&") if ";" not in pair and not _MALFORMED.search(pair))
    return parse_qs("&".join(pairs), keep_blank_values=True, errors="replace")


def _first(query: Query, name: str) -> str:
    values = query.get(name)
    return values[0] if values else ""


def _boolean(query: Query, name: str) -> bool | None:
    values = query.get(name)
    if not values:
        return None
    return values[0] != "0" and values[0].lower() != "false"


def _number(query: Query, name: str) -> int | api_errors.StatusError | None:
    values = query.get(name)
    if not values:
        return None
    text = values[0]
    number = read_integer(text)
    if number is None:
        return api_errors.bad_request(f"strconv.ParseInt: parsing {field_errors.quote(text)}: invalid syntax")
    if not -(2**63) <= number < 2**63:
        return api_errors.bad_request(f"strconv.ParseInt: parsing {field_errors.quote(text)}: value out of range")
    return number


class ListOptions(msgspec.Struct, frozen=True):
    label_selector: labels.Selector
    field_selector: field_selectors.FieldSelector
    watch: bool = False
    allow_bookmarks: bool = False
    resource_version: str = ""
    match: str = ""
    timeout_s: int | None = None
    limit: int = 0
    continue_token: str = ""
    send_initial_events: bool | None = None


def wants_watch(query: Query) -> bool:
    return bool(_boolean(query, "watch"))


def selected_name(query: Query) -> str:
    """The name that the field selector of a list requires; empty if there is none."""
    text = _first(query, "fieldSelector")
    selector = field_selectors.parse_field_selector(text) if text else ""
    name = "" if isinstance(selector, str) else selector.exact("metadata.name") or ""
    return "" if names.name_is_path_segment(name, False) else name


def list_options(query: Query, *, force_watch: bool = False) -> ListOptions | api_errors.StatusError:
    timeout_s = _number(query, "timeoutSeconds")
    if isinstance(timeout_s, api_errors.StatusError):
        return timeout_s
    limit = _number(query, "limit")
    if isinstance(limit, api_errors.StatusError):
        return limit
    label_selector = labels.parse_selector(_first(query, "labelSelector"))
    if isinstance(label_selector, str):
        return api_errors.bad_request(label_selector)
    field_selector = field_selectors.parse_field_selector(_first(query, "fieldSelector"))
    if isinstance(field_selector, str):
        return api_errors.bad_request(field_selector)
    options = ListOptions(
        label_selector=label_selector,
        field_selector=field_selector,
        watch=wants_watch(query) or force_watch,
        allow_bookmarks=bool(_boolean(query, "allowWatchBookmarks")),
        resource_version=_first(query, "resourceVersion"),
        match=_first(query, "resourceVersionMatch"),
        timeout_s=timeout_s,
        limit=limit or 0,
        continue_token=_first(query, "continue"),
        send_initial_events=_boolean(query, "sendInitialEvents"),
    )
    has_no_start = options.send_initial_events is None and not options.match and options.resource_version in ("", "0")
    if options.watch and has_no_start:
        # A watch without a start revision begins with the current state.
        options = msgspec.structs.replace(options, send_initial_events=True, match=NOT_OLDER_THAN)
    problems = _watch_problems(options) if options.watch else _list_problems(options)
    return (
        api_errors.invalid(api_errors.GroupResource(_META_GROUP, "ListOptions"), "", problems) if problems else options
    )


def _watch_problems(options: ListOptions) -> field_errors.FieldErrors:
    path, problems = "resourceVersionMatch", []
    if options.send_initial_events is not None and options.match != NOT_OLDER_THAN:
        detail = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"
        problems.append(field_errors.forbidden(path, detail))
    if options.match:
        if options.send_initial_events is None:
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            problems.append(field_errors.forbidden(path, detail))
        if options.match != NOT_OLDER_THAN:
            problems.append(field_errors.not_supported(path, options.match, [NOT_OLDER_THAN]))
        if options.continue_token:
            problems.append(field_errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
    return problems


def _list_problems(options: ListOptions) -> field_errors.FieldErrors:
    path, problems = "resourceVersionMatch", []
    if options.match:
        if not options.resource_version:
            detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            problems.append(field_errors.forbidden(path, detail))
        if options.continue_token:
            problems.append(field_errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if options.match not in (EXACT, NOT_OLDER_THAN):
            problems.append(field_errors.not_supported(path, options.match, [EXACT, NOT_OLDER_THAN, ""]))
        if options.match == EXACT and options.resource_version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            problems.append(field_errors.forbidden(path, detail))
    if options.send_initial_events is not None:
        problems.append(field_errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return problems


class WriteOptions(msgspec.Struct, frozen=True):
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool | None = None


def write_options(query: Query, kind: str, *, apply: bool = False) -> WriteOptions | api_errors.StatusError:
    """``kind`` is ``CreateOptions``, ``UpdateOptions`` or ``PatchOptions``: the name in the error text."""
    manager = _first(query, "fieldManager")
    dry_run = query.get("dryRun", [])
    validation = _first(query, "fieldValidation")
    force = _boolean(query, "force") if kind == "PatchOptions" else None
    problems: field_errors.FieldErrors = []
    if apply and not manager:
        problems.append(field_errors.required("fieldManager", "is required for apply patch"))
    if not apply and force is not None:
        problems.append(field_errors.forbidden("force", "may not be specified for non-apply patch"))
    problems += validate_field_manager(manager, "fieldManager")
    problems += _dry_run_problems(dry_run)
    if validation not in _FIELD_VALIDATIONS:
        problems.append(field_errors.not_supported("fieldValidation", validation, _FIELD_VALIDATIONS))
    if problems:
        return api_errors.invalid(api_errors.GroupResource(_META_GROUP, kind), "", problems)
    return WriteOptions(bool(dry_run), manager, validation or "Warn", force)


def _dry_run_problems(dry_run: list[str]) -> field_errors.FieldErrors:
    if all(each == "All" for each in dry_run):
        return []
    return [field_errors.not_supported("dryRun", dry_run, ["All"])]


class DeleteOptions(msgspec.Struct, frozen=True):
    grace_period_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: bool = False


def delete_options_from_query(query: Query) -> DeleteOptions | api_errors.StatusError:
    grace = _number(query, "gracePeriodSeconds")
    if isinstance(grace, api_errors.StatusError):
        return grace
    policy = query.get("propagationPolicy")
    obj = {
        "gracePeriodSeconds": grace,
        "orphanDependents": _boolean(query, "orphanDependents"),
        "propagationPolicy": policy[0] if policy else None,
        "dryRun": query.get("dryRun", []),
        "preconditions": {name: query[name][0] for name in ("uid", "resourceVersion") if name in query},
    }
    return delete_options(obj)


def delete_options(obj: Mapping[str, Any]) -> DeleteOptions | api_errors.StatusError:
    """Validates a decoded ``DeleteOptions`` object."""
    orphan, policy = obj.get("orphanDependents"), obj.get("propagationPolicy")
    dry_run = obj.get("dryRun") or []
    problems: field_errors.FieldErrors = []
    if orphan is not None and policy is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(field_errors.invalid("propagationPolicy", policy, detail))
    if policy is not None and policy not in _PROPAGATION_POLICIES:
        problems.append(field_errors.not_supported("propagationPolicy", policy, [*_PROPAGATION_POLICIES, "nil"]))
    problems += _dry_run_problems(dry_run)
    if problems:
        return api_errors.invalid(api_errors.GroupResource(_META_GROUP, "DeleteOptions"), "", problems)
    preconditions = obj.get("preconditions") or {}
    return DeleteOptions(
        grace_period_seconds=obj.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        orphan_dependents=orphan,
        propagation_policy=policy,
        dry_run=bool(dry_run),
    )


def options_object(kind: str, query: Query) -> dict[str, Any]:
    """The options of a create or an update as an object for admission."""
    obj: dict[str, Any] = {"kind": kind, "apiVersion": f"{_META_GROUP}/v1"}
    if query.get("dryRun"):
        obj["dryRun"] = query["dryRun"]
    for name in ("fieldManager", "fieldValidation"):
        if _first(query, name):
            obj[name] = _first(query, name)
    return obj


def delete_options_object(options: DeleteOptions) -> dict[str, Any]:
    preconditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    fields = {
        "gracePeriodSeconds": options.grace_period_seconds,
        "preconditions": {name: text for name, text in preconditions.items() if text is not None} or None,
        "orphanDependents": options.orphan_dependents,
        "propagationPolicy": options.propagation_policy,
        "dryRun": ["All"] if options.dry_run else None,
    }
    obj: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": f"{_META_GROUP}/v1"}
    return obj | {name: value for name, value in fields.items() if value is not None}


def without_preconditions(options: DeleteOptions) -> DeleteOptions:
    """The same options without preconditions, which have been checked."""
    return msgspec.structs.replace(options, uid=None, resource_version=None)
