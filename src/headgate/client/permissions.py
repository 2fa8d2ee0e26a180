"""The text for a refused request: the missing permission, or another reason why the result is unknown.

Every command reports refused requests with these functions, so that a refused list never looks like an empty list.
"""

from __future__ import annotations

from typing import Final

from headgate.client.pager import ListRefused
from headgate.kube.api_resources import APIResource

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
_READS: Final = ("get", "list", "watch")


def resource_name(resource: APIResource) -> str:
    """``workloads.kueue.x-k8s.io``; only the plural for the core group."""
    return resource.plural + (f".{resource.group}" if resource.group else "")


def describe_permission(verb: str, resource: APIResource, namespace: str | None = None) -> str:
    """Verb, resource, group and where: ``list workloads.kueue.x-k8s.io in namespace team-a``. ``namespace``: None for
    all namespaces; a cluster-scoped resource has none."""
    if not resource.namespaced:
        return f"{verb} {resource_name(resource)}"
    where = "in all namespaces" if namespace is None else f"in namespace {namespace}"
    return f"{verb} {resource_name(resource)} {where}"


def is_missing_right(message: str) -> bool:
    """Whether the authorization refused the request. Admission webhooks, ResourceQuota, Pod Security and namespaces
    that are being deleted answer 403, too; only the authorization names the user."""
    return 'forbidden: User "' in message and "admission webhook" not in message


def refusal_text(verb: str, resource: APIResource, namespace: str | None, refused: ListRefused) -> str:
    """One line for a request that was refused. A read is refused only by the authorization; a write may also be refused
    by admission, for example by a GatePolicy, whose message then says which users may do it."""
    if refused.status == FORBIDDEN and (verb in _READS or is_missing_right(refused.text)):
        return f"missing right: {describe_permission(verb, resource, namespace)} ({refused.text})"
    return f"cannot {describe_permission(verb, resource, namespace)}: {unknown_text(refused)}"


def unknown_text(refused: ListRefused) -> str:
    """Why the read failed, for any status except 403."""
    if refused.status == UNAUTHORIZED:
        return f"the server does not accept the credentials of this kubeconfig ({refused.text})"
    return refused.text
