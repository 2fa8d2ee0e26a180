"""The rules of webhook configurations, and of the parts they share with admission policies (``admission_policy.py``).

Expressions are CEL: they must be there, and are not compiled.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, duplicate, invalid, required, too_many
from headgate.kube.validation.labels import has_invalid_selector_value, validate_label_selector
from headgate.kube.validation.object_meta import validate_object_meta
from headgate.kube.validation.values import one_of, repeats, validate_text

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
    """Mutating and validating alike. What a stored configuration already breaks, it may go on breaking."""
    stored = (old or {}).get("webhooks") or []
    strict_versions = all(set(each.get("admissionReviewVersions") or ()) & set(_REVIEW_VERSIONS) for each in stored)
    strict_names = len({each.get("name") for each in stored}) == len(stored)
    no_effects = all(each.get("sideEffects") in _NO_SIDE_EFFECTS for each in stored)
    any_value = any(has_invalid_selector_value(each.get(name)) for each in stored for name in _SELECTORS)
    found = validate_object_meta(
        obj["metadata"], namespaced=False, name_rule=names.name_is_dns_subdomain, kube_finalizers=False
    )
    seen: set[str] = set()
    for i, hook in enumerate(obj.get("webhooks") or ()):
        path, name = f"webhooks[{i}]", hook.get("name", "")
        found += _validate_hook(hook, path, _NO_SIDE_EFFECTS if no_effects else _SIDE_EFFECTS, any_value)
        found += _validate_versions(
            hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions", strict_versions
        )
        if strict_names and name:
            if name in seen:
                found.append(duplicate(f"{path}.name", name))
            seen.add(name)
    return found


_SELECTORS: Final = ("namespaceSelector", "objectSelector")


def _validate_hook(hook: Object, path: str, side_effects: tuple[str, ...], any_value: bool) -> FieldErrors:
    found = _validate_name(hook.get("name", ""), f"{path}.name")
    for i, rule in enumerate(hook.get("rules") or ()):
        found += validate_rule(rule, f"{path}.rules[{i}]")
    for field, allowed in (("failurePolicy", FAILURE_POLICIES), ("matchPolicy", MATCH_POLICIES)):
        if hook.get(field) is not None:
            found += one_of(hook[field], f"{path}.{field}", allowed)
    effects = hook.get("sideEffects")
    if effects is None:
        found.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(side_effects)}"))
    else:
        found += one_of(effects, f"{path}.sideEffects", side_effects)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        found.append(invalid(f"{path}.timeoutSeconds", seconds, text))
    for name in _SELECTORS:
        found += validate_label_selector(hook.get(name), f"{path}.{name}", any_value=any_value)
    if hook.get("reinvocationPolicy") is not None:
        found += one_of(hook["reinvocationPolicy"], f"{path}.reinvocationPolicy", _REINVOCATION)
    found += _validate_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    return found + validate_match_conditions(hook.get("matchConditions") or [], f"{path}.matchConditions")


def validate_match_conditions(conditions: list[Object], path: str) -> FieldErrors:
    too_many_given = len(conditions) > _MAX_CONDITIONS
    found = [too_many(path, len(conditions), _MAX_CONDITIONS)] if too_many_given else []
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        at, name = f"{path}[{i}]", condition.get("name", "")
        if not condition.get("expression", "").strip():
            found.append(required(f"{at}.expression"))
        if not name:
            found.append(required(f"{at}.name"))
            continue
        found += validate_text(names.is_qualified_name, name, f"{at}.name")
        if name in seen:
            found.append(duplicate(f"{at}.name", name))
        seen.add(name)
    return found


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
    found = [] if operations else [required(f"{path}.operations")]
    found += _alone(operations, f"{path}.operations", "operations")
    for i, operation in enumerate(operations):
        found += one_of(operation, f"{path}.operations[{i}]", _OPERATIONS)
    groups, versions = rule.get("apiGroups") or [], rule.get("apiVersions") or []
    found += [] if groups else [required(f"{path}.apiGroups")]
    found += _alone(groups, f"{path}.apiGroups", "API groups")
    found += [] if versions else [required(f"{path}.apiVersions")]
    found += _alone(versions, f"{path}.apiVersions", "API versions")
    found += [required(f"{path}.apiVersions[{i}]") for i, version in enumerate(versions) if not version]
    found += _validate_resources(rule.get("resources") or [], f"{path}.resources")
    if rule.get("scope") is not None:
        found += one_of(rule["scope"], f"{path}.scope", _SCOPES)
    return found


def _alone(values: list[str], path: str, noun: str) -> FieldErrors:
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {noun}")]
    return []


def _validate_resources(resources: list[str], path: str) -> FieldErrors:
    found: FieldErrors = [] if resources else [required(path)]
    all_subresources: set[str] = set()
    all_resources: set[str] = set()
    plain = False
    for i, text in enumerate(resources):
        if not text:
            found.append(required(f"{path}[{i}]"))
            continue
        resource, slash, sub = text.partition("/")
        if not slash:
            plain = text != "*"
            continue
        if resource in all_subresources:
            found.append(invalid(f"{path}[{i}]", text, f"if '{resource}/*' is present, must not specify {text}"))
        if sub in all_resources:
            found.append(invalid(f"{path}[{i}]", text, f"if '*/{sub}' is present, must not specify {text}"))
        if sub == "*":
            all_subresources.add(resource)
        if resource == "*":
            all_resources.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        found.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        found.append(invalid(path, resources, text))
    return found


def _validate_versions(versions: list[str], path: str, strict: bool) -> FieldErrors:
    accepted = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        return [required(path, f"must specify one of {accepted}")]
    found: FieldErrors = []
    for i, (version, repeated) in enumerate(zip(versions, repeats(versions), strict=True)):
        if repeated:
            found.append(invalid(f"{path}[{i}]", version, "duplicate version"))
        else:
            found += validate_text(names.is_dns1035_label, version, f"{path}[{i}]")
    if strict and not set(versions) & set(_REVIEW_VERSIONS):
        found.append(invalid(path, versions, f"must include at least one of {accepted}"))
    return found


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
    found: FieldErrors = []
    if parts.scheme != "https":
        found.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not host:
        found.append(invalid(path, host, f"host must be specified{_FORM}"))
    if "@" in parts.netloc:
        user = parts.netloc.rpartition("@")[0]
        found.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        found.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        found.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return found


def validate_service(service: Object, path: str) -> FieldErrors:
    # Upstream passes the two names in each other's place; with both missing the order shows.
    found = [
        required(f"{path}.{ours}")
        for ours, theirs in (("name", "namespace"), ("namespace", "name"))
        if not service.get(theirs)
    ]
    port = service.get("port", 0)
    if messages := names.is_valid_port_num(port):
        found.append(invalid(f"{path}.port", port, "port is not valid: " + ", ".join(messages)))
    target = service.get("path") or "/"
    at = f"{path}.path"
    if target == "/":
        return found
    if target == "//":
        return [*found, invalid(at, target, "segment[0] may not be empty")]
    if not target.startswith("/"):
        found.append(invalid(at, target, "must start with a '/'"))
    for i, step in enumerate(target[1:].removesuffix("/").split("/")):
        if not step:
            found.append(invalid(at, target, f"segment[{i}] may not be empty"))
        else:
            found += [invalid(at, target, f"segment[{i}]: {each}") for each in names.is_dns1123_subdomain(step)]
    return found
