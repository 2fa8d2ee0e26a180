"""Validation of roles and their bindings. Names only need to be valid path segments."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, invalid, not_supported, required
from headgate.kube.validation.labels import has_invalid_selector_value, validate_label_selector
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import validate_text

Object = dict[str, Any]

GROUP: Final = "rbac.authorization.k8s.io"


def _validate_meta(obj: Object, namespaced: bool) -> FieldErrors:
    return validate_object_meta(
        obj["metadata"], namespaced=namespaced, name_rule=names.name_is_path_segment, kube_finalizers=False
    )


def _validate_meta_update(new: Object, old: Object) -> FieldErrors:
    return validate_object_meta_update(new["metadata"], old["metadata"], kube_finalizers=False)


def validate_policy_rule(rule: Object, namespaced: bool, path: str) -> FieldErrors:
    errors: FieldErrors = []
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid(f"{path}.nonResourceURLs", urls, text))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(f"{path}.nonResourceURLs", urls, text))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _validate_rules(obj: Object, namespaced: bool) -> FieldErrors:
    rules = obj.get("rules") or ()
    return [error for i, rule in enumerate(rules) for error in validate_policy_rule(rule, namespaced, f"rules[{i}]")]


def validate_role(obj: Object) -> FieldErrors:
    return _validate_meta(obj, True) + _validate_rules(obj, True)


def validate_role_update(new: Object, old: Object) -> FieldErrors:
    return validate_role(new) + _validate_meta_update(new, old)


def validate_cluster_role(obj: Object, old: Object | None = None) -> FieldErrors:
    errors = _validate_meta(obj, False) + _validate_rules(obj, False)
    aggregation = obj.get("aggregationRule")
    if aggregation is None:
        return errors
    selectors = aggregation.get("clusterRoleSelectors") or []
    old_selectors = ((old or {}).get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    tolerated = any(has_invalid_selector_value(each) for each in old_selectors)
    if not selectors:
        text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required("aggregationRule.clusterRoleSelectors", text))
    for i, selector in enumerate(selectors):
        path = f"aggregationRule.clusterRoleSelectors[{i}]"
        errors += validate_label_selector(selector, path, any_value=tolerated)
        if validate_label_selector(selector, path):
            errors.append(invalid(path, None, "invalid label selector."))
    return errors


def validate_cluster_role_update(new: Object, old: Object) -> FieldErrors:
    return validate_cluster_role(new, old) + _validate_meta_update(new, old)


def _validate_binding(obj: Object, namespaced: bool) -> FieldErrors:
    errors = _validate_meta(obj, namespaced)
    role = obj.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if role.get("apiGroup", "") != GROUP:
        errors.append(not_supported("roleRef.apiGroup", role.get("apiGroup", ""), [GROUP]))
    if role.get("kind", "") not in kinds:
        errors.append(not_supported("roleRef.kind", role.get("kind", ""), kinds))
    if not role.get("name"):
        errors.append(required("roleRef.name"))
    else:
        errors += validate_text(lambda name: names.name_is_path_segment(name, False), role["name"], "roleRef.name")
    for i, subject in enumerate(obj.get("subjects") or ()):
        errors += _validate_subject(subject, namespaced, f"subjects[{i}]")
    return errors


def _validate_subject(subject: Object, namespaced: bool, path: str) -> FieldErrors:
    errors: FieldErrors = []
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    if not name:
        errors.append(required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            errors += validate_text(names.is_dns1123_subdomain, name, f"{path}.name")
        if group:
            errors.append(not_supported(f"{path}.apiGroup", group, [""]))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != GROUP:
            errors.append(not_supported(f"{path}.apiGroup", group, [GROUP]))
    else:
        errors.append(not_supported(f"{path}.kind", kind, ["ServiceAccount", "User", "Group"]))
    return errors


def validate_role_binding(obj: Object) -> FieldErrors:
    return _validate_binding(obj, True)


def validate_cluster_role_binding(obj: Object) -> FieldErrors:
    return _validate_binding(obj, False)


def _validate_role_kept(new: Object, old: Object) -> FieldErrors:
    errors = _validate_meta_update(new, old)
    if new.get("roleRef") != old.get("roleRef"):
        role = new.get("roleRef") or {}
        shown = {
            "APIGroup": role.get("apiGroup", ""),
            "Kind": role.get("kind", ""),
            "Name": role.get("name", ""),
        }
        errors.append(invalid("roleRef", msgspec.Raw(msgspec.json.encode(shown)), "cannot change roleRef"))
    return errors


def validate_role_binding_update(new: Object, old: Object) -> FieldErrors:
    return _validate_binding(new, True) + _validate_role_kept(new, old)


def validate_cluster_role_binding_update(new: Object, old: Object) -> FieldErrors:
    return _validate_binding(new, False) + _validate_role_kept(new, old)
