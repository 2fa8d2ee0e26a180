"""Validation of a whole CustomResourceDefinition: on create, on update, and on a status update."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.structural.formats import known_format
from headgate.apimachinery.structural.patterns import MAX_TOTAL_STATES, pattern_states
from headgate.apimachinery.structural.schema_cost import patterns_of
from headgate.apimachinery.validation.apiextensions.conversion import check_conversion, has_certificate
from headgate.apimachinery.validation.apiextensions.defaults import check_defaults
from headgate.apimachinery.validation.apiextensions.layout import DefinitionLayout, VersionLayout, definition_layout
from headgate.apimachinery.validation.apiextensions.names import (
    check_approval,
    check_group,
    check_names,
    check_required,
)
from headgate.apimachinery.validation.apiextensions.schemas import check_root, check_schema
from headgate.apimachinery.validation.apiextensions.structural import check_structural, parse_error
from headgate.apimachinery.validation.apiextensions.versions import (
    check_column,
    check_selectable,
    check_subresources,
    check_warning,
)
from headgate.kube import names
from headgate.kube.conditions import is_true
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required
from headgate.kube.validation.object_meta import IMMUTABLE, validate_object_meta, validate_object_meta_update

Object = dict[str, Any]

_SCOPES: Final = ("Cluster", "Namespaced")


def validate_definition(obj: Object) -> FieldErrors:
    spec = obj["spec"]
    expected = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"

    def check_name(name: str, prefix: bool) -> list[str]:
        messages = names.name_is_dns_subdomain(name, prefix)
        return messages if name == expected else [*messages, 'must be spec.names.plural+"."+spec.group']

    problems = validate_object_meta(obj["metadata"], namespaced=False, name_rule=check_name, kube_finalizers=False)
    problems += _check_spec(spec, check_bundle=False)
    return problems + _check_rest(obj, None)


def validate_definition_update(new: Object, old: Object) -> FieldErrors:
    problems = validate_object_meta_update(new["metadata"], old["metadata"], kube_finalizers=False)
    established = is_true((old.get("status") or {}).get("conditions"), "Established")
    problems += _check_spec(new["spec"], check_bundle=established and not _has_bad_bundle(old["spec"]))
    immutable = [("group",), ("names", "plural")]
    if established:
        immutable = [("scope",), ("names", "kind"), *immutable]
    for path in immutable:
        before, after = _value_at(old["spec"], path), _value_at(new["spec"], path)
        if before != after:
            problems.append(invalid(f"spec.{'.'.join(path)}", after, IMMUTABLE))
    return problems + _check_rest(new, old)


def validate_definition_status(new: Object, old: Object) -> FieldErrors:
    problems = validate_object_meta_update(new["metadata"], old["metadata"], kube_finalizers=False)
    return problems + _check_status(new)


def _value_at(value: Object, path: tuple[str, ...]) -> str:
    for step in path:
        value = value.get(step) or {}
    return str(value or "")


def _has_bad_bundle(spec: Object) -> bool:
    client = ((spec.get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
    return bool(client.get("caBundle")) and not has_certificate(client["caBundle"])


def _check_spec(spec: Object, *, check_bundle: bool) -> FieldErrors:
    layout = definition_layout(spec)
    patterns = set[str]().union(*(patterns_of(schema) for schema in layout.schemas))
    states = sum(map(pattern_states, patterns))
    if states > MAX_TOTAL_STATES:  # they are not compiled
        text = f"its patterns are too large together: {states} states, at most {MAX_TOTAL_STATES} are allowed"
        return [forbidden("spec.versions", text)]
    problems = check_group(spec.get("group") or "", "spec.group")
    scope, crd_names = spec.get("scope") or "", spec.get("names") or {}
    if not scope:
        problems.append(required("spec.scope"))
    elif scope not in _SCOPES:
        problems.append(not_supported("spec.scope", scope, _SCOPES))
    if _schema_of(layout.top) is None:
        problems += [
            required(f"{part.schema_path}.openAPIV3Schema") for part in layout.versions if _schema_of(part) is None
        ]
    preserves_unknown = bool(spec.get("preserveUnknownFields"))
    if preserves_unknown and any(_has_default(schema) for schema in layout.schemas):
        text = "must be false in order to use defaults in the schema"
        problems.append(invalid("spec.preserveUnknownFields", True, text))
    problems += _check_versions(spec, layout)
    problems += check_required(crd_names, "spec.names") + check_names(crd_names, "spec.names")
    problems += _check_part(layout.top, any(_has_status(part) for part in (layout.top, *layout.versions)))
    conversion = spec.get("conversion")
    if conversion is not None:
        problems += check_conversion(conversion, preserves_unknown=preserves_unknown, check_bundle=check_bundle)
    return problems


def _check_versions(spec: Object, layout: DefinitionLayout) -> FieldErrors:
    versions: list[Object] = spec.get("versions") or []
    problems: FieldErrors = []
    per_version = any(part.subresources is not None for part in layout.versions)
    for version, part in zip(versions, layout.versions, strict=True):
        if messages := names.is_dns1035_label(part.name):
            problems.append(invalid(f"{part.path}.name", part.name, ",".join(messages)))
        problems += check_warning(version, part.path)
        problems += _check_part(part, _has_status(part if per_version else layout.top))
    if len({part.name for part in layout.versions}) != len(versions):
        problems.append(invalid("spec.versions", versions, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        problems.append(invalid("spec.versions", spec.get("versions"), text))
    if versions and layout.versions[0].name and (messages := names.is_dns1035_label(layout.versions[0].name)):
        problems.append(invalid("spec.version", layout.versions[0].name, ",".join(messages)))
    return problems


def _schema_of(part: VersionLayout) -> Object | None:
    found: Object | None = (part.schema or {}).get("openAPIV3Schema")
    return found


def _has_status(part: VersionLayout) -> bool:
    return (part.subresources or {}).get("status") is not None


def _has_default(schema: Any) -> bool:
    if isinstance(schema, dict):
        return schema.get("default") is not None or any(_has_default(below) for below in schema.values())
    return isinstance(schema, list) and any(_has_default(below) for below in schema)


def _check_part(part: VersionLayout, has_status: bool) -> FieldErrors:
    problems: FieldErrors = []
    schema = _schema_of(part)
    if schema is not None:
        problems += _check_version_schema(schema, f"{part.schema_path}.openAPIV3Schema", has_status)
    problems += check_subresources(part.subresources, f"{part.path}.subresources")
    for index, column in enumerate(part.columns):
        problems += check_column(column, f"{part.path}.additionalPrinterColumns[{index}]")
    if part.selectable:
        path = f"{part.path}.selectableFields"
        if part.name and schema is None:
            text = "may only be set when `version.schema.openAPIV3Schema` is not included"
            problems.append(invalid(path, "", text))
        elif schema is None:
            problems.append(invalid(path, "", "may only be set when validations.schema is included"))
        else:
            problems += check_selectable(part.selectable, schema, path)
    return problems


def _check_version_schema(schema: Object, path: str, has_status: bool) -> FieldErrors:
    problems = check_root(schema, path, has_status=has_status)
    error = parse_error(schema)
    if not error:
        problems += check_structural(schema, path) or check_defaults(schema, path)
    problems += check_schema(schema, path)
    return problems or ([invalid(path, "", error)] if error else [])


def _check_status(obj: Object) -> FieldErrors:
    return check_names((obj.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames")


def _check_rest(new: Object, old: Object | None) -> FieldErrors:
    problems = _check_status(new) + _check_stored_versions(new) + check_approval(new, old)
    if new["spec"].get("preserveUnknownFields") and not (old or {"spec": {}})["spec"].get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        problems.append(invalid("spec.preserveUnknownFields", True, text))
    return problems


def _check_stored_versions(obj: Object) -> FieldErrors:
    path = "status.storedVersions"
    stored: list[str] = (obj.get("status") or {}).get("storedVersions") or []
    if not stored:
        return [invalid(path, stored or None, "must have at least one stored version")]
    versions: list[Object] = obj["spec"].get("versions") or []
    problems = []
    known: set[str] = set()
    listed = set(stored)
    for each in versions:
        name = each.get("name") or ""
        if each.get("storage") and (name in known or name not in listed):  # kube-apiserver reports a duplicate too
            problems.append(invalid(path, stored, f"must have the storage version {name}"))
        known.add(name)
    for index, name in enumerate(stored):
        if name not in known:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {name} and removes {name} from"
                " status.storedVersions"
            )
            problems.append(invalid(f"{path}[{index}]", name, text))
    return problems


def unknown_formats(spec: Object) -> list[str]:
    """Unknown string formats, which are not checked; the server warns about them."""
    return [text for schema in definition_layout(spec).schemas for text in _formats(schema)]


def _formats(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [text for below in schema for text in _formats(below)]
    if not isinstance(schema, dict):
        return []
    form, kind = schema.get("format"), schema.get("type")
    own = [form] if isinstance(form, str) and form and kind == "string" and known_format(form) is None else []
    return own + [text for name, below in schema.items() if name not in ("default", "enum") for text in _formats(below)]
