"""Decodes a ``Configuration`` strictly: the configuration, or all errors with their paths.

The fields and types come from ``types.py``; this module adds the rules that a type cannot express. An unknown field or
value is an error with the most similar known name. ``files.py`` adds the lines of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.cli.configuration.types import API_VERSION, KIND, Configuration
from headgate.cli.options.address import parse_address
from headgate.cli.options.components import COMPONENTS
from headgate.cli.wiring.scheduler_config import read_object
from headgate.jobs.kinds.custom import parse_kinds
from headgate.jobs.settings import FRAMEWORKS, MIN_FORCE_DELETE_AFTER_S, POD_FRAMEWORKS, RELEASE_INTEGRATIONS
from headgate.kube.feature_gates import GATES, contradiction, known_gate, with_gates
from headgate.kube.field_errors import FieldError, FieldErrors, forbidden, invalid, not_supported, required
from headgate.kube.serializer import strict_decoding as strict
from headgate.kube.serializer.strict_decoding import Decoder, Object, similar
from headgate.kube.serializer.struct_decoder import field_decoders
from headgate.kube.timestamps import parse_duration
from headgate.kube.validation.labels import validate_label_selector
from headgate.runtime.webhooks.target import parse_service, parse_url
from headgate.scheduling.config.plugin_registry import Registry

_REQUIREMENT: Final = strict.record(
    {"key": strict.text, "operator": strict.text, "values": strict.list_of(strict.text)}
)
LABEL_SELECTOR: Final = strict.record(
    {"matchLabels": strict.string_map, "matchExpressions": strict.list_of(_REQUIREMENT)}
)
_NANOS: Final = 10**9


def parse(value: Any, registry: Registry) -> Configuration | FieldErrors:
    """``value``: the decoded YAML or JSON. ``registry``: the scheduler plugins that an embedded scheduler configuration
    may name."""
    errors: FieldErrors = []
    given: Object = _document(value, "", errors) or {}
    errors += validate_header(given, (API_VERSION,), KIND)
    for path, check in CHECKS.items():
        found = _at(given, path)
        if found is not None:
            errors += check(found, path)
    scheduler = _at(given, "scheduler.configuration")
    if scheduler is not None:
        errors += _validate_scheduler(scheduler, "scheduler.configuration", registry)
    pods_ready = _at(given, "jobs.waitForPodsReady")
    if pods_ready is not None and "timeout" not in _at(value, "jobs.waitForPodsReady"):
        errors.append(required("jobs.waitForPodsReady.timeout", "such as 5m"))
    errors += [
        required(path, f"{other} needs it")
        for path, other in (("metrics.keyFile", "metrics.certFile"), ("metrics.certFile", "metrics.keyFile"))
        if _at(given, other) is not None and _at(given, path) is None
    ]
    for path, other in EXCLUSIVE:
        if _at(given, path) is not None and _at(given, other) is not None:
            errors.append(forbidden(path, f"{other} is set, too; keep one of them"))
    if errors:
        return errors
    return msgspec.convert({key: each for key, each in given.items() if key not in _HEADER}, Configuration)


def validate_header(given: Mapping[str, Any], versions: tuple[str, ...], kind: str) -> FieldErrors:
    """Whether ``apiVersion`` and ``kind`` are there and supported."""
    errors: FieldErrors = []
    for field, expected in (("apiVersion", versions), ("kind", (kind,))):
        if not given.get(field):
            errors.append(required(field, f"must be {' or '.join(expected)}"))
        elif given[field] not in expected:
            errors.append(not_supported(field, given[field], expected))
    return errors


def _make_document() -> Decoder:
    return strict.record({**dict.fromkeys(_HEADER, strict.text), **field_decoders(Configuration)})


_HEADER: Final = ("apiVersion", "kind")
_document: Final = _make_document()


def _at(given: Mapping[str, Any], path: str) -> Any:
    found: Any = given
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


# Rules


def validate_names(names: list[str | None], path: str, known: tuple[str, ...]) -> FieldErrors:
    """Names that are not in ``known``, with a suggestion."""
    return [
        _unknown_name(f"{path}[{i}]", name, known)
        for i, name in enumerate(names)
        if name is not None and name not in known
    ]


def _validate_chosen(names: list[str | None], path: str, known: tuple[str, ...]) -> FieldErrors:
    if not names:
        problem = f"nothing is chosen: choose at least one of {', '.join(known)}, or remove the field"
        return [invalid(path, names, problem)]
    return validate_names(names, path, known)


def _unknown_name(path: str, name: str, known: tuple[str, ...]) -> FieldError:
    close = similar(name, dict.fromkeys(known))
    error = not_supported(path, name, known)
    return msgspec.structs.replace(error, detail=f"{error.detail}; is it {close}?") if close else error


def validate_feature_gates(gates: Mapping[str, bool | None], path: str) -> FieldErrors:
    known = tuple(each.name for each in GATES)
    errors = [_unknown_name(f"{path}.{name}", name, known) for name in gates if known_gate(name) is None]
    if errors:
        return errors
    given = {name: on for name, on in gates.items() if on is not None}
    features = with_gates(given)
    problem = features if isinstance(features, str) else contradiction(features)
    return [invalid(path, given, problem)] if problem else []


def validate_frameworks(names: list[str | None], path: str) -> FieldErrors:
    errors = validate_names(names, path, FRAMEWORKS)
    pods, *owners = POD_FRAMEWORKS
    if pods not in names:
        errors += [
            invalid(f"{path}[{i}]", each, f"its pods wait in queues, so {pods} must be listed, too")
            for i, each in enumerate(names)
            if each in owners
        ]
    return errors


def validate_duration(text: str, path: str, *, may_be_zero: bool = False) -> FieldErrors:
    nanos = parse_duration(text)
    if isinstance(nanos, str):
        return [invalid(path, text, f"{nanos}: write a duration such as 5m or 90s")]
    if nanos < 0 or (nanos == 0 and not may_be_zero):
        return [invalid(path, text, "must be above zero: write a duration such as 5m or 90s")]
    return []


def _validate_force_delete_after(text: str, path: str) -> FieldErrors:
    errors = validate_duration(text, path)
    nanos = parse_duration(text)
    if not errors and not isinstance(nanos, str) and nanos < MIN_FORCE_DELETE_AFTER_S * 10**9:
        problem = f"must be at least {MIN_FORCE_DELETE_AFTER_S:g}s: the clocks of nodes may differ"
        return [invalid(path, text, problem)]
    return errors


def validate_selector(selector: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    read = LABEL_SELECTOR(selector, path, errors)
    return errors or validate_label_selector(read, path)


def _validate_address(text: str, path: str) -> FieldErrors:
    return [invalid(path, text, "must be HOST:PORT")] if isinstance(parse_address("", text, ""), str) else []


def _target_validator(parse_target: Callable[[str], Any], form: str) -> Callable[[str, str], FieldErrors]:
    return lambda text, path: [invalid(path, text, f"must be {form}")] if isinstance(parse_target(text), str) else []


def _validate_secret(text: str, path: str) -> FieldErrors:
    namespace, _, name = text.partition("/")
    return [] if namespace and name else [invalid(path, text, "must be NAMESPACE/NAME")]


def _validate_releases(releases: Mapping[str, Any], path: str) -> FieldErrors:
    return [
        _unknown_name(f"{path}.{each}", each, RELEASE_INTEGRATIONS)
        for each in releases
        if each not in RELEASE_INTEGRATIONS
    ]


def _validate_kinds(kinds: list[Any], path: str) -> FieldErrors:
    read = parse_kinds({"kinds": kinds})
    if isinstance(read, tuple):
        return []
    return [msgspec.structs.replace(each, path=f"{path}{each.path.removeprefix('kinds')}") for each in read]


def _validate_requeuing(given: Object, path: str) -> FieldErrors:
    base, most = given.get("backoffBaseSeconds", 60), given.get("backoffMaxSeconds", 3600)
    return (
        [invalid(f"{path}.backoffMaxSeconds", most, f"must be at least backoffBaseSeconds, {base}")]
        if most < base
        else []
    )


def _validate_nonempty(texts: list[str | None], path: str) -> FieldErrors:
    return [invalid(f"{path}[{i}]", "", "may not be empty") for i, each in enumerate(texts) if not each]


def _validate_scheduler_names(names: list[str | None], path: str) -> FieldErrors:
    if not names:
        return [invalid(path, names, "an empty list serves no pods: name a scheduler, or remove the field")]
    return _validate_nonempty(names, path)


def _validate_scheduler(value: Object, path: str, registry: Registry) -> FieldErrors:
    read = read_object(value, registry)
    if not isinstance(read, list):
        return []
    return [msgspec.structs.replace(each, path=f"{path}.{each.path}" if each.path else path) for each in read]


CHECKS: Final[Mapping[str, Callable[[Any, str], FieldErrors]]] = {
    "components": lambda names, path: _validate_chosen(names, path, COMPONENTS),
    "featureGates": validate_feature_gates,
    "scheduler.names": _validate_scheduler_names,
    "queues.trustedUsers": _validate_nonempty,
    "queues.gatedSchedulerNames": _validate_scheduler_names,
    "webhooks.url": _target_validator(parse_url, "https://HOST:PORT, without a user, a query or a fragment"),
    "webhooks.service": _target_validator(parse_service, "NAMESPACE/NAME or NAMESPACE/NAME:PORT"),
    "webhooks.listen": _validate_address,
    "webhooks.secret": _validate_secret,
    "jobs.managedJobsNamespaceSelector": validate_selector,
    "jobs.frameworks": validate_frameworks,
    "jobs.quotaRelease": _validate_releases,
    "jobs.kinds": _validate_kinds,
    "jobs.waitForPodsReady.timeout": validate_duration,
    "jobs.waitForPodsReady.recoveryTimeout": lambda text, path: validate_duration(text, path, may_be_zero=True),
    "jobs.waitForPodsReady.requeuingStrategy": _validate_requeuing,
    "jobs.maxWaitForTerminatingPods": validate_duration,
    "jobs.reportTerminatingPodsAfter": validate_duration,
    "jobs.forceDeleteTerminatingPodsAfter": _validate_force_delete_after,
    "webhooks.shutdownDelay": lambda text, path: validate_duration(text, path, may_be_zero=True),
    "metrics.listen": _validate_address,
}
"""The rules of single fields. ``tools/chart_schema.py`` writes those that JSON schema can express for Helm."""
EXCLUSIVE: Final = (
    ("scheduler.configuration", "scheduler.configurationFile"),
    ("jobs.kinds", "jobs.kindsFile"),
    ("webhooks.url", "webhooks.service"),
)
