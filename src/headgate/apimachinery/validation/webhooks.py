"""Validation of webhook configurations, and of the fields that admission policies have too (``admission_policy.py``).

CEL expressions are required, but not compiled.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, duplicate, invalid, required, too_many
from headgate.kube.validation.labels import has_invalid_selector_value, validate_label_selector
from headgate.kube.validation.object_meta import validate_object_meta
from headgate.kube.validation.values import are_duplicates, validate_one_of, validate_text

Object = dict[str, Any]

_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
FAILURE_POLICIES: Final = ("Fail", "Ignore")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
_NO_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_SIDE_EFFECTS: Final = (*_NO_SIDE_EFFECTS, "Some", "Unknown")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REINVOCATION: Final = ("IfNeeded", "Never")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_FORM: Final = "; desired format: https://host[/path]"
_MAX_CONDITIONS: Final = 64


def validate_webhook_configuration(obj: Object, old: Object | None = None) -> FieldErrors:
    """For mutating and validating webhooks. Violations in the stored configuration ``old`` are tolerated."""
    stored = (old or {}).get("webhooks") or []
    strict_versions = all(set(each.get("admissionReviewVersions") or ()) & set(_REVIEW_VERSIONS) for each in stored)
    strict_names = len({each.get("name") for each in stored}) == len(stored)
    no_effects = all(each.get("sideEffects") in _NO_SIDE_EFFECTS for each in stored)
    any_value = any(has_invalid_selector_value(each.get(name)) for each in stored for name in _SELECTORS)
    errors = validate_object_meta(
        obj["metadata"], namespaced=False, name_rule=names.name_is_dns_subdomain, kube_finalizers=False
    )
    seen: set[str] = set()
    for i, hook in enumerate(obj.get("webhooks") or ()):
        path, name = f"webhooks[{i}]", hook.get("name", "")
        errors += _validate_hook(hook, path, _NO_SIDE_EFFECTS if no_effects else _SIDE_EFFECTS, any_value)
        errors += _validate_versions(
            hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions", strict_versions
        )
        if strict_names and name:
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
    return errors


_SELECTORS: Final = ("namespaceSelector", "objectSelector")


def _validate_hook(hook: Object, path: str, side_effects: tuple[str, ...], any_value: bool) -> FieldErrors:
    errors = _validate_name(hook.get("name", ""), f"{path}.name")
    for i, rule in enumerate(hook.get("rules") or ()):
        errors += validate_rule(rule, f"{path}.rules[{i}]")
    for field, allowed in (("failurePolicy", FAILURE_POLICIES), ("matchPolicy", MATCH_POLICIES)):
        if hook.get(field) is not None:
            errors += validate_one_of(hook[field], f"{path}.{field}", allowed)
    effects = hook.get("sideEffects")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(side_effects)}"))
    else:
        errors += validate_one_of(effects, f"{path}.sideEffects", side_effects)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", seconds, text))
    for name in _SELECTORS:
        errors += validate_label_selector(hook.get(name), f"{path}.{name}", any_value=any_value)
    if hook.get("reinvocationPolicy") is not None:
        errors += validate_one_of(hook["reinvocationPolicy"], f"{path}.reinvocationPolicy", _REINVOCATION)
    errors += _validate_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    return errors + validate_match_conditions(hook.get("matchConditions") or [], f"{path}.matchConditions")


def validate_match_conditions(conditions: list[Object], path: str) -> FieldErrors:
    too_many_given = len(conditions) > _MAX_CONDITIONS
    errors = [too_many(path, len(conditions), _MAX_CONDITIONS)] if too_many_given else []
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        field_path, name = f"{path}[{i}]", condition.get("name", "")
        if not condition.get("expression", "").strip():
            errors.append(required(f"{field_path}.expression"))
        if not name:
            errors.append(required(f"{field_path}.name"))
            continue
        errors += validate_text(names.is_qualified_name, name, f"{field_path}.name")
        if name in seen:
            errors.append(duplicate(f"{field_path}.name", name))
        seen.add(name)
    return errors


def _validate_name(name: str, path: str) -> FieldErrors:
    if not name:
        return [required(path)]
    if messages := names.is_dns1123_subdomain(name):
        return [invalid(path, name, ",".join(messages))]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def validate_rule(rule: Object, path: str) -> FieldErrors:
    operations = rule.get("operations") or []
    errors = [] if operations else [required(f"{path}.operations")]
    errors += _validate_wildcard_alone(operations, f"{path}.operations", "operations")
    for i, operation in enumerate(operations):
        errors += validate_one_of(operation, f"{path}.operations[{i}]", _OPERATIONS)
    groups, versions = rule.get("apiGroups") or [], rule.get("apiVersions") or []
    errors += [] if groups else [required(f"{path}.apiGroups")]
    errors += _validate_wildcard_alone(groups, f"{path}.apiGroups", "API groups")
    errors += [] if versions else [required(f"{path}.apiVersions")]
    errors += _validate_wildcard_alone(versions, f"{path}.apiVersions", "API versions")
    errors += [required(f"{path}.apiVersions[{i}]") for i, version in enumerate(versions) if not version]
    errors += _validate_resources(rule.get("resources") or [], f"{path}.resources")
    if rule.get("scope") is not None:
        errors += validate_one_of(rule["scope"], f"{path}.scope", _SCOPES)
    return errors


def _validate_wildcard_alone(values: list[str], path: str, noun: str) -> FieldErrors:
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {noun}")]
    return []


def _validate_resources(resources: list[str], path: str) -> FieldErrors:
    errors: FieldErrors = [] if resources else [required(path)]
    all_subresources: set[str] = set()
    all_resources: set[str] = set()
    plain = False
    for i, text in enumerate(resources):
        if not text:
            errors.append(required(f"{path}[{i}]"))
            continue
        resource, slash, sub = text.partition("/")
        if not slash:
            plain = text != "*"
            continue
        if resource in all_subresources:
            errors.append(invalid(f"{path}[{i}]", text, f"if '{resource}/*' is present, must not specify {text}"))
        if sub in all_resources:
            errors.append(invalid(f"{path}[{i}]", text, f"if '*/{sub}' is present, must not specify {text}"))
        if sub == "*":
            all_subresources.add(resource)
        if resource == "*":
            all_resources.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, text))
    return errors


def _validate_versions(versions: list[str], path: str, strict: bool) -> FieldErrors:
    accepted = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        return [required(path, f"must specify one of {accepted}")]
    errors: FieldErrors = []
    for i, (version, repeated) in enumerate(zip(versions, are_duplicates(versions), strict=True)):
        if repeated:
            errors.append(invalid(f"{path}[{i}]", version, "duplicate version"))
        else:
            errors += validate_text(names.is_dns1035_label, version, f"{path}[{i}]")
    if strict and not set(versions) & set(_REVIEW_VERSIONS):
        errors.append(invalid(path, versions, f"must include at least one of {accepted}"))
    return errors


def _validate_client(client: Object, path: str) -> FieldErrors:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if service is not None:
        return validate_service(service, f"{path}.service")
    return validate_url(url or "", f"{path}.url")


def validate_url(url: str, path: str) -> FieldErrors:
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError as problem:
        return [required(path, f"url must be a valid URL: {problem}{_FORM}")]
    errors: FieldErrors = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not host:
        errors.append(invalid(path, host, f"host must be specified{_FORM}"))
    if "@" in parts.netloc:
        user = parts.netloc.rpartition("@")[0]
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def validate_service(service: Object, path: str) -> FieldErrors:
    # Kubernetes swaps the two names; the order of the errors shows it if both are missing.
    errors = [
        required(f"{path}.{ours}")
        for ours, theirs in (("name", "namespace"), ("namespace", "name"))
        if not service.get(theirs)
    ]
    port = service.get("port", 0)
    if messages := names.is_valid_port_num(port):
        errors.append(invalid(f"{path}.port", port, "port is not valid: " + ", ".join(messages)))
    target = service.get("path") or "/"
    field_path = f"{path}.path"
    if target == "/":
        return errors
    if target == "//":
        return [*errors, invalid(field_path, target, "segment[0] may not be empty")]
    if not target.startswith("/"):
        errors.append(invalid(field_path, target, "must start with a '/'"))
    for i, step in enumerate(target[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(field_path, target, f"segment[{i}] may not be empty"))
        else:
            errors += [
                invalid(field_path, target, f"segment[{i}]: {each}") for each in names.is_dns1123_subdomain(step)
            ]
    return errors
