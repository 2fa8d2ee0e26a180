"""Prevents privilege escalation: a user cannot grant more rights than the user has.

A user may write a role if the user holds every right in it or may ``escalate`` it, and a binding if the user holds
every right of its role or may ``bind`` it. A PUT or PATCH that creates an object also needs the right to create it.
``apiserver/verbs/writing.py`` calls this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.api_errors import AuthorizationAttributes
from headgate.apiserver.authz.rbac import BINDINGS, CLUSTER_BINDINGS, CLUSTER_ROLES, ROLES, aggregate, binding_of
from headgate.apiserver.authz.rules import ALL, PolicyRule, described, rules_of, uncovered
from headgate.apiserver.registry import stored_objects
from headgate.apiserver.request_context import RequestContext
from headgate.kube.field_errors import quote, quoted_list

Object = dict[str, Any]

_GROUP: Final = "rbac.authorization.k8s.io"
_ALL_RIGHTS: Final = (PolicyRule((ALL,), (ALL,), (ALL,)), PolicyRule((ALL,), urls=(ALL,)))
# The fields that the garbage collector writes. A change of only these grants nothing.
_GC_FIELDS: Final = ("ownerReferences", "finalizers", "managedFields", "selfLink")


def check_create_permission(call: RequestContext) -> api_errors.StatusError | None:
    """The error if a PUT or PATCH creates an object and the user has no right to create it."""
    info, kind = call.info, call.kind
    if info.verb == "create" or call.user.is_in_system_masters:
        return None
    attributes = AuthorizationAttributes(
        call.user.name, "create", kind.group, kind.plural, info.subresource, info.namespace, info.name
    )
    decision = call.api.authorizer.decide(call.user, attributes)
    return None if decision.allowed else api_errors.access_denied(attributes, decision.reason)


def check_escalation(call: RequestContext, new: Object, old: Object | None) -> api_errors.StatusError | None:
    """The error if the user may not write this role or binding. Other kinds grant no rights."""
    if call.kind.group != _GROUP or call.user.is_in_system_masters:
        return None
    if old is not None and _changes_only_gc_fields(call, new, old):
        return None
    if call.kind.resource in (BINDINGS, CLUSTER_BINDINGS):
        return _check_binding(call, new)
    if call.kind.resource in (ROLES, CLUSTER_ROLES):
        return _check_role(call, new, old)
    return None


def _changes_only_gc_fields(call: RequestContext, new: Object, old: Object) -> bool:
    def without_gc_fields(obj: Object) -> Object:
        kept = {field: value for field, value in obj["metadata"].items() if field not in _GC_FIELDS}
        return stored_objects.wire_form(call.api, call.kind, {**obj, "metadata": kept})

    return without_gc_fields(new) == without_gc_fields(old)


def _may(call: RequestContext, verb: str, group: str, resource: str, name: str) -> bool:
    attributes = AuthorizationAttributes(call.user.name, verb, group, resource, "", call.namespace, name)
    return call.api.authorizer.decide(call.user, attributes).allowed


def _check_role(call: RequestContext, new: Object, old: Object | None) -> api_errors.StatusError | None:
    if _may(call, "escalate", _GROUP, call.kind.plural, call.info.name):
        return None
    name = new["metadata"].get("name", "")
    problem = _missing_rights_problem(call, rules_of(new))
    if problem is not None:
        return api_errors.forbidden(call.resource, name, problem)
    if (_aggregates(new) or _aggregates(old)) and _missing_rights_problem(call, _ALL_RIGHTS) is not None:
        text = "must have cluster-admin privileges to use the aggregationRule"
        return api_errors.forbidden(call.resource, name, text)
    return None


def _aggregates(role: Object | None) -> bool:
    return bool(((role or {}).get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _check_binding(call: RequestContext, new: Object) -> api_errors.StatusError | None:
    with_namespace = {**new, "metadata": {**new["metadata"], "namespace": call.namespace}}
    binding = binding_of(with_namespace)
    resource = {"ClusterRole": "clusterroles", "Role": "roles"}.get(binding.role_kind)
    if resource is None:
        return api_errors.unknown_error(f"unsupported role reference kind: {quote(binding.role_kind)}")
    if _may(call, "bind", (new.get("roleRef") or {}).get("apiGroup", ""), resource, binding.role_name):
        return None
    rules = call.api.authorizer.rules(binding)
    if rules is None:
        # As in kube-apiserver, the error names the resource of the request (rolebindings), not that of the role.
        return api_errors.not_found(call.resource, binding.role_name)
    problem = _missing_rights_problem(call, rules)
    return None if problem is None else api_errors.forbidden(call.resource, binding.name, problem)


def _missing_rights_problem(call: RequestContext, requested: Sequence[PolicyRule]) -> str | None:
    """The text of the refusal, with the rights in ``requested`` that the user does not have; None if there are none."""
    user = call.user
    effective = call.api.authorizer.effective_rules(user, call.namespace)
    missing = uncovered([rule for rule, _, _ in effective.rules], requested)
    if missing is None:
        return (
            "the rules have too many combinations of verbs, resources and names to compare them with the permissions of"
            f" user {quote(user.name)}; split the rules, or obtain the verb escalate or bind"
        )
    if not missing:
        return None
    text = (
        f"user {quote(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant RBAC permissions"
        " not currently held:\n" + "\n".join(described(missing))
    )
    if effective.absent_roles:
        absent = [f"{call.resource} {quote(name)} not found" for _, name in effective.absent_roles]
        text += f"; resolution errors: [{aggregate(absent)}]"
    return text
