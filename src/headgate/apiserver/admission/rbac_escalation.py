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
from headgate.apiserver.call import Call
from headgate.apiserver.registry import stored_objects
from headgate.kube.field_errors import quote, quoted_list

Object = dict[str, Any]

_GROUP: Final = "rbac.authorization.k8s.io"
_EVERYTHING: Final = (PolicyRule((ALL,), (ALL,), (ALL,)), PolicyRule((ALL,), urls=(ALL,)))
# What the garbage collector writes: changing only these is no grant.
_COLLECTED: Final = ("ownerReferences", "finalizers", "managedFields", "selfLink")


def may_create(call: Call) -> api_errors.StatusError | None:
    """Whether a write that turns out to create an object was authorized to create it."""
    info, kind = call.info, call.kind
    if info.verb == "create" or call.user.is_master:
        return None
    asked = AuthorizationAttributes(
        call.user.name, "create", kind.group, kind.plural, info.subresource, info.namespace, info.name
    )
    decision = call.api.policy.decide(call.user, asked)
    return None if decision.allowed else api_errors.access_denied(asked, decision.reason)


def check_escalation(call: Call, new: Object, old: Object | None) -> api_errors.StatusError | None:
    """Whether the user may write this role or binding; other kinds grant nothing."""
    if call.kind.group != _GROUP or call.user.is_master:
        return None
    if old is not None and _only_collected(call, new, old):
        return None
    if call.kind.resource in (BINDINGS, CLUSTER_BINDINGS):
        return _guard_binding(call, new)
    if call.kind.resource in (ROLES, CLUSTER_ROLES):
        return _guard_role(call, new, old)
    return None


def _only_collected(call: Call, new: Object, old: Object) -> bool:
    def rest(obj: Object) -> Object:
        kept = {field: value for field, value in obj["metadata"].items() if field not in _COLLECTED}
        return stored_objects.canonical(call.api, call.kind, {**obj, "metadata": kept})

    return rest(new) == rest(old)


def _may(call: Call, verb: str, group: str, resource: str, name: str) -> bool:
    asked = AuthorizationAttributes(call.user.name, verb, group, resource, "", call.namespace, name)
    return call.api.policy.decide(call.user, asked).allowed


def _guard_role(call: Call, new: Object, old: Object | None) -> api_errors.StatusError | None:
    if _may(call, "escalate", _GROUP, call.kind.plural, call.info.name):
        return None
    name = new["metadata"].get("name", "")
    problem = _missing(call, rules_of(new))
    if problem is not None:
        return api_errors.forbidden(call.resource, name, problem)
    if (_aggregates(new) or _aggregates(old)) and _missing(call, _EVERYTHING) is not None:
        text = "must have cluster-admin privileges to use the aggregationRule"
        return api_errors.forbidden(call.resource, name, text)
    return None


def _aggregates(role: Object | None) -> bool:
    return bool(((role or {}).get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _guard_binding(call: Call, new: Object) -> api_errors.StatusError | None:
    placed = {**new, "metadata": {**new["metadata"], "namespace": call.namespace}}
    binding = binding_of(placed)
    resource = {"ClusterRole": "clusterroles", "Role": "roles"}.get(binding.role_kind)
    if resource is None:
        return api_errors.unknown_error(f"unsupported role reference kind: {quote(binding.role_kind)}")
    if _may(call, "bind", (new.get("roleRef") or {}).get("apiGroup", ""), resource, binding.role_name):
        return None
    rules = call.api.policy.rules(binding)
    if rules is None:
        return api_errors.not_found(call.resource, binding.role_name)  # so it says: the resource that was asked for
    problem = _missing(call, rules)
    return None if problem is None else api_errors.forbidden(call.resource, binding.name, problem)


def _missing(call: Call, wanted: Sequence[PolicyRule]) -> str | None:
    """The rights in ``wanted`` that the user has not, as the refusal lists them."""
    user = call.user
    grants = call.api.policy.grants(user, call.namespace)
    lacking = uncovered([rule for rule, _, _ in grants.rules], wanted)
    if lacking is None:
        return (
            f"user {quote(user.name)} is attempting to grant more combinations of verbs, resources and names than are"
            " compared with the permissions held; split the rules, or ask for the verb escalate or bind"
        )
    if not lacking:
        return None
    text = (
        f"user {quote(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant RBAC permissions"
        " not currently held:\n" + "\n".join(described(lacking))
    )
    if grants.absent_roles:
        absent = [f"{call.resource} {quote(name)} not found" for _, name in grants.absent_roles]
        text += f"; resolution errors: [{aggregate(absent)}]"
    return text
