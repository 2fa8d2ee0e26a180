"""Validation of ``metadata`` for all kinds: names, labels, annotations, owners, finalizers, immutable fields.

``validate_object_meta`` is for a new object, ``validate_object_meta_update`` for an update. The API server runs them
twice for a write: once as part of the kind's own rules (``kube_finalizers`` true), and once for all kinds with the path
segment rule for the name. System fields such as ``uid`` must be set before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headgate.kube.field_errors import FieldErrors, forbidden, invalid, required, too_long
from headgate.kube.field_errors import quote as go_quote
from headgate.kube.names import NameRule, is_qualified_name, name_is_dns_label, name_is_path_segment
from headgate.kube.validation.go_values import go_named_string, owner_reference, owner_references
from headgate.kube.validation.labels import validate_labels

Object = dict[str, Any]

MAX_ANNOTATION_BYTES: Final = 256 * 1024
MAX_FIELD_MANAGER_BYTES: Final = 128
MAX_SUBRESOURCE_BYTES: Final = 256
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
IMMUTABLE: Final = "field is immutable"

_ORPHAN: Final = "orphan"
_FOREGROUND: Final = "foregroundDeletion"
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", _ORPHAN, _FOREGROUND})


def validate_object_meta(
    meta: Object, *, namespaced: bool, name_rule: NameRule, path: str = "metadata", kube_finalizers: bool = True
) -> FieldErrors:
    """``meta`` is of a new object, and its name is already generated."""
    errors: FieldErrors = []
    name, prefix = meta.get("name") or "", meta.get("generateName") or ""
    if prefix:
        errors += [invalid(f"{path}.generateName", prefix, each) for each in name_rule(prefix, True)]
    if not name:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    else:
        errors += [invalid(f"{path}.name", name, each) for each in name_rule(name, False)]
    errors += _validate_namespace(meta.get("namespace") or "", namespaced, f"{path}.namespace")
    if (meta.get("generation") or 0) < 0:
        errors.append(invalid(f"{path}.generation", meta["generation"], NOT_NEGATIVE))
    for field, validate in _PARTS:
        value = meta.get(field)
        if value:
            errors += validate(value, f"{path}.{field}")
    if kube_finalizers and (finalizers := meta.get("finalizers")):
        errors += validate_kube_finalizers(finalizers, f"{path}.finalizers")
    return errors


def validate_object_meta_update(
    new: Object, old: Object, *, path: str = "metadata", kube_finalizers: bool = True
) -> FieldErrors:
    errors: FieldErrors = []
    if old.get("deletionTimestamp"):
        errors += _validate_no_new_finalizers(new.get("finalizers"), old.get("finalizers"), f"{path}.finalizers")
    if not new.get("resourceVersion"):
        errors.append(invalid(f"{path}.resourceVersion", "", "must be specified for an update"))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        errors.append(invalid(f"{path}.generation", new.get("generation") or 0, "must not be decremented"))
    for field in ("name", "namespace"):
        if (new.get(field) or "") != (old.get(field) or ""):
            errors.append(invalid(f"{path}.{field}", new.get(field) or "", IMMUTABLE))
    if (new.get("uid") or "") != (old.get("uid") or ""):
        errors.append(invalid(f"{path}.uid", go_named_string(new.get("uid") or ""), IMMUTABLE))
    for field in ("creationTimestamp", "deletionTimestamp"):
        if new.get(field) != old.get(field):
            errors.append(invalid(f"{path}.{field}", go_named_string(new.get(field)), IMMUTABLE))
    if new.get("deletionGracePeriodSeconds") != old.get("deletionGracePeriodSeconds"):
        seconds = new.get("deletionGracePeriodSeconds")
        errors.append(invalid(f"{path}.deletionGracePeriodSeconds", seconds, IMMUTABLE))
    errors += validate_labels(new.get("labels"), f"{path}.labels")
    errors += validate_annotations(new.get("annotations"), f"{path}.annotations")
    errors += validate_owner_references(new.get("ownerReferences"), f"{path}.ownerReferences")
    errors += validate_managed_fields(new.get("managedFields"), f"{path}.managedFields")
    if kube_finalizers:
        errors += validate_kube_finalizers(new.get("finalizers"), f"{path}.finalizers")
    return errors


def validate_common_meta(meta: Object, *, namespaced: bool) -> FieldErrors:
    """The rules for all kinds, which run after the kind's own rules."""
    return validate_object_meta(meta, namespaced=namespaced, name_rule=name_is_path_segment, kube_finalizers=False)


def validate_common_meta_update(new: Object, old: Object, *, namespaced: bool) -> FieldErrors:
    """The rules for an update of any kind, which run before the kind's own rules."""
    return validate_common_meta(new, namespaced=namespaced) + validate_object_meta_update(
        new, old, kube_finalizers=False
    )


def _validate_namespace(namespace: str, namespaced: bool, path: str) -> FieldErrors:
    if not namespaced:
        return [forbidden(path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(path)]
    return [invalid(path, namespace, each) for each in name_is_dns_label(namespace, False)]


def validate_annotations(annotations: Mapping[str, str] | None, path: str) -> FieldErrors:
    if not annotations:
        return []
    errors = [invalid(path, key, message) for key in annotations for message in is_qualified_name(key.lower())]
    if sum(_byte_length(key) + _byte_length(value) for key, value in annotations.items()) > MAX_ANNOTATION_BYTES:
        errors.append(too_long(path, MAX_ANNOTATION_BYTES))
    return errors


def validate_owner_references(references: Sequence[Object] | None, path: str) -> FieldErrors:
    errors: FieldErrors = []
    controller, printed = "", None
    for reference in references or ():
        errors += _validate_owner_reference(reference, path)
        if reference.get("controller"):
            current = f"{reference.get('kind', '')}/{reference.get('name', '')}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {current}"
                )
                printed = owner_references(references or ()) if printed is None else printed
                errors.append(invalid(path, printed, detail))
            else:
                controller = current
    return errors


def _validate_owner_reference(reference: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    api_version, kind = reference.get("apiVersion", ""), reference.get("kind", "")
    # With more than one slash Kubernetes parses neither group nor version.
    version = "" if api_version.count("/") > 1 else api_version.rpartition("/")[2]
    if not version:
        errors.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
    if not kind:
        errors.append(invalid(f"{path}.kind", kind, "must not be empty"))
    if not reference.get("name"):
        errors.append(invalid(f"{path}.name", "", "must not be empty"))
    if not reference.get("uid"):
        errors.append(invalid(f"{path}.uid", "", "must not be empty"))
    if (api_version, kind) == ("v1", "Event"):
        detail = "/v1, Kind=Event is disallowed from being an owner"
        errors.append(invalid(path, owner_reference(reference), detail))
    return errors


def validate_finalizers(finalizers: Sequence[str] | None, path: str) -> FieldErrors:
    errors = [
        invalid(path, finalizer, message) for finalizer in finalizers or () for message in is_qualified_name(finalizer)
    ]
    if finalizers and _ORPHAN in finalizers and _FOREGROUND in finalizers:
        detail = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        errors.append(invalid(path, list(finalizers), detail))
    return errors


def validate_kube_finalizers(finalizers: Sequence[str] | None, path: str) -> FieldErrors:
    """An unqualified finalizer must be one of Kubernetes, because a misspelled one would block deletion forever."""
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"{path}[{index}]", finalizer, detail)
        for index, finalizer in enumerate(finalizers or ())
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def _validate_no_new_finalizers(new: Sequence[str] | None, old: Sequence[str] | None, path: str) -> FieldErrors:
    extra = sorted(set(new or ()) - set(old or ()))
    if not extra:
        return []
    printed = "[]string{" + ", ".join(go_quote(each) for each in extra) + "}"
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {printed}"
    return [forbidden(path, detail)]


def validate_managed_fields(entries: Sequence[Object] | None, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for index, entry in enumerate(entries or ()):
        entry_path = f"{path}[{index}]"
        operation, fields_type = entry.get("operation", ""), entry.get("fieldsType", "")
        if operation not in ("Apply", "Update"):
            errors.append(invalid(f"{entry_path}.operation", go_named_string(operation), "must be `Apply` or `Update`"))
        if fields_type and fields_type != "FieldsV1":
            errors.append(invalid(f"{entry_path}.fieldsType", fields_type, "must be `FieldsV1`"))
        errors += validate_field_manager(entry.get("manager", ""), f"{entry_path}.manager")
        if _byte_length(entry.get("subresource", "")) > MAX_SUBRESOURCE_BYTES:
            errors.append(too_long(f"{entry_path}.subresource", MAX_SUBRESOURCE_BYTES))
    return errors


def validate_field_manager(manager: str, path: str) -> FieldErrors:
    """Also for the ``fieldManager`` of a request."""
    errors: FieldErrors = []
    if _byte_length(manager) > MAX_FIELD_MANAGER_BYTES:
        errors.append(too_long(path, MAX_FIELD_MANAGER_BYTES))
    if not manager.isprintable():
        position = 0
        for char in manager:
            if not char.isprintable():
                errors.append(invalid(path, manager, f"invalid character U+{ord(char):04X} (at position {position})"))
            position += _byte_length(char)
    return errors


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_PARTS: Final[tuple[tuple[str, Callable[[Any, str], FieldErrors]], ...]] = (
    ("labels", validate_labels),
    ("annotations", validate_annotations),
    ("ownerReferences", validate_owner_references),
    ("finalizers", validate_finalizers),
    ("managedFields", validate_managed_fields),
)
