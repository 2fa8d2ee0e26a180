"""Validation of pod updates: few fields of the spec may change, and a few more while the pod is gated (KEP-3838)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headgate.apimachinery.object_diff import object_diff
from headgate.apimachinery.validation.pod.affinity import REQUIRED
from headgate.apimachinery.validation.pod.annotations import MIRROR, validate_annotation_updates
from headgate.apimachinery.validation.pod.containers import validate_image_text
from headgate.apimachinery.validation.pod.create import validate_metadata_and_spec
from headgate.apimachinery.validation.pod.gates import validate_only_removed_gates
from headgate.apimachinery.validation.pod.options import PodOptions, options_for_update
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, quote, required
from headgate.kube.names import MAX_INT32, inclusive_range_error
from headgate.kube.pods.equality import same_container, semantically_equal
from headgate.kube.validation.go_values import struct, structs
from headgate.kube.validation.object_meta import validate_object_meta_update
from headgate.kube.validation.taints import validate_only_added_tolerations

Object = dict[str, Any]

_UPDATABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
# Fields with their own rules; they are ignored in the comparison of the specs.
_CHECKED_FIELDS: Final = ("activeDeadlineSeconds", "schedulingGates", "tolerations")


def options_of(old: Object, features: FeatureGates) -> PodOptions:
    annotations = old["metadata"].get("annotations")
    return options_for_update(old["spec"], annotations, is_pod=True, allow_privileged=features.allow_privileged)


def validate_pod_update(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    options = options_of(old, features)
    spec, old_spec = new["spec"], old["spec"]
    errors = _validate_metadata_and_spec(new, old, options)
    # As in kube-apiserver, some errors end the validation (`stop`).
    for field in ("containers", "initContainers"):
        found, stop = _validate_images(spec.get(field) or (), old_spec.get(field) or (), f"spec.{field}")
        errors += found
        if stop:
            return errors
    found, stop = _validate_deadline(spec.get("activeDeadlineSeconds"), old_spec.get("activeDeadlineSeconds"))
    errors += found
    if stop:
        return errors
    errors += validate_only_added_tolerations(
        spec.get("tolerations") or (), old_spec.get("tolerations") or (), "spec.tolerations"
    )
    gates, old_gates = spec.get("schedulingGates") or (), old_spec.get("schedulingGates") or ()
    errors += validate_only_removed_gates(gates, old_gates, "spec.schedulingGates")
    if semantically_equal(spec, old_spec):
        return errors
    # The fields that may change get their old values; then the specs must be equal.
    compared = _with_old_values(spec, old_spec)
    if old_gates and features.pod_scheduling_readiness:
        found, compared = _validate_directives(compared, old_spec)
        errors += found
    if not semantically_equal(compared, old_spec):
        shown = object_diff(old_spec, compared)
        detail = f"pod updates may not change fields other than {','.join(_UPDATABLE)}\n{shown}"
        errors.append(forbidden("spec", detail))
    return errors


def _validate_metadata_and_spec(new: Object, old: Object, options: PodOptions) -> FieldErrors:
    meta, old_meta = new["metadata"], old["metadata"]
    errors = validate_object_meta_update(meta, old_meta)
    errors += validate_metadata_and_spec(meta, new["spec"], options)
    return errors + validate_annotation_updates(
        meta.get("annotations"), old_meta.get("annotations"), new["spec"], "metadata.annotations", options
    )


def _validate_images(new: Sequence[Object], old: Sequence[Object], path: str) -> tuple[FieldErrors, bool]:
    """The errors, and whether the validation ends with them."""
    if len(new) != len(old):
        return [forbidden(path, "pod updates may not add or remove containers")], True
    errors: FieldErrors = []
    for index, container in enumerate(new):
        if not container.get("image"):
            errors.append(required(f"{path}[{index}].image"))
        errors += validate_image_text(container, f"{path}[{index}]")
    return errors, False


def _validate_deadline(new_s: int | None, old_s: int | None) -> tuple[FieldErrors, bool]:
    """The errors, and whether the validation ends with them."""
    path = "spec.activeDeadlineSeconds"
    if new_s is None:
        detail = "must not update from a positive integer to nil value"
        return ([] if old_s is None else [invalid(path, None, detail)]), False
    if not 0 <= new_s <= MAX_INT32:
        return [invalid(path, new_s, inclusive_range_error(0, MAX_INT32))], True
    if old_s is not None and old_s < new_s:
        return [invalid(path, new_s, "must be less than or equal to previous value")], True
    return [], False


def _with_old_values(spec: Object, old_spec: Object) -> Object:
    """The new spec with the old values of all fields that an update may change."""
    compared = dict(spec)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            compared[field] = [
                {**container, "image": before.get("image", "")}
                for container, before in zip(spec[field], old_spec[field], strict=True)
            ]
    for field in _CHECKED_FIELDS:
        _set_or_remove(compared, field, old_spec.get(field))
    old_grace_s = old_spec.get("terminationGracePeriodSeconds")
    if old_grace_s is not None and old_grace_s < 0 and compared.get("terminationGracePeriodSeconds") == 1:
        compared["terminationGracePeriodSeconds"] = old_grace_s
    return compared


def _validate_directives(compared: Object, old_spec: Object) -> tuple[FieldErrors, Object]:
    """While a pod is gated, its node selector and node affinity may become stricter.

    Returns the errors, and the spec with the old values of these two fields.
    """
    errors: FieldErrors = []
    selector, old_selector = compared.get("nodeSelector"), old_spec.get("nodeSelector") or {}
    if (selector or {}) != old_selector:
        errors += _validate_selector_mutation(selector, old_selector, "spec.nodeSelector")
        compared = dict(compared)
        _set_or_remove(compared, "nodeSelector", old_spec.get("nodeSelector"))
    affinity, old_affinity = compared.get("affinity"), old_spec.get("affinity")
    node, old_node = (affinity or {}).get("nodeAffinity"), (old_affinity or {}).get("nodeAffinity")
    if (node is None) != (old_node is None) or not semantically_equal(node, old_node):
        errors += validate_node_affinity_mutation(node, old_node, "spec.affinity.nodeAffinity")
        compared = dict(compared)
        _set_or_remove(compared, "affinity", _with_old_node_affinity(affinity, old_affinity, old_node))
    return errors, compared


def _with_old_node_affinity(
    affinity: Object | None, old_affinity: Object | None, old_node: Object | None
) -> Object | None:
    if affinity is None:
        return {"nodeAffinity": old_node}
    if old_affinity is None and not any(affinity.get(kind) for kind in ("podAffinity", "podAntiAffinity")):
        return None
    result = dict(affinity)
    _set_or_remove(result, "nodeAffinity", old_node)
    return result


def _validate_selector_mutation(new: Mapping[str, str] | None, old: Mapping[str, str], path: str) -> FieldErrors:
    if all((new or {}).get(key) == value for key, value in old.items()):
        return []
    detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [invalid(path, new, detail)]


def validate_node_affinity_mutation(new: Object | None, old: Object | None, path: str) -> FieldErrors:
    """Terms are alternatives, so their number must not change. More expressions in a term are stricter."""
    old_required = (old or {}).get(REQUIRED)
    if old_required is None:
        return []
    old_terms = old_required.get("nodeSelectorTerms") or []
    new_terms = ((new or {}).get(REQUIRED) or {}).get("nodeSelectorTerms")
    field_path = f"{path}.{REQUIRED}.nodeSelectorTerms"
    if old_terms and len(old_terms) != len(new_terms or ()):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(field_path, structs("NodeTerm", new_terms), detail)]
    return [
        invalid(
            f"{field_path}[{index}]",
            struct("NodeTerm", term),
            "only additions are allowed (no mutations or deletions)",
        )
        for index, (term, before) in enumerate(zip(new_terms or (), old_terms, strict=False))
        if not _only_adds(term, before)
    ]


def _only_adds(new: Object, old: Object) -> bool:
    fields = ("matchExpressions", "matchFields")
    # An empty term selects nothing; a term with expressions would select something.
    if not any(old.get(field) for field in fields) and any(new.get(field) for field in fields):
        return False
    for field in fields:
        before, after = old.get(field) or [], new.get(field) or []
        if len(after) < len(before):
            return False
        if not all(semantically_equal(*pair) for pair in zip(after, before, strict=False)):
            return False
    return True


def _set_or_remove(spec: Object, field: str, value: Any) -> None:
    if value is None:
        spec.pop(field, None)
    else:
        spec[field] = value


def validate_pod_ephemeral_containers(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    """The ``ephemeralcontainers`` subresource: containers may be added, never changed or removed."""
    errors = _validate_metadata_and_spec(new, old, options_of(old, features))
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("[]", "static pods do not support ephemeral containers")]
    after = {each.get("name", ""): each for each in new["spec"].get("ephemeralContainers") or ()}
    path = "spec.ephemeralContainers"
    for before in old["spec"].get("ephemeralContainers") or ():
        name = before.get("name", "")
        if name not in after:
            errors.append(forbidden(path, f"existing ephemeral containers {quote(name)} may not be removed\n"))
        elif not same_container(after[name], before):
            shown = object_diff(before, after[name])
            detail = f"existing ephemeral containers {quote(name)} may not be changed\n{shown}"
            errors.append(forbidden(path, detail))
    return errors
