"""A refused read in words: which right is missing, or why else nothing is known.

An answer that is no list says nothing about what exists. Every command that reads names what it could not read with
these functions, so that a refusal never looks like an empty list.
"""

from __future__ import annotations

from typing import Final

from headgate.client.listing import Refused
from headgate.kube.resource import Resource

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404


def resource_name(resource: Resource) -> str:
    """``workloads.kueue.x-k8s.io``; only the plural for the core group."""
    return resource.plural + (f".{resource.group}" if resource.group else "")


def right_to(verb: str, resource: Resource, namespace: str | None = None) -> str:
    """Verb, resource, group and where: ``list workloads.kueue.x-k8s.io in namespace team-a``. ``namespace``: None for
    all namespaces; a cluster-scoped resource has none."""
    if not resource.namespaced:
        return f"{verb} {resource_name(resource)}"
    where = "in all namespaces" if namespace is None else f"in namespace {namespace}"
    return f"{verb} {resource_name(resource)} {where}"


def refusal_text(verb: str, resource: Resource, namespace: str | None, refused: Refused) -> str:
    """One line for a request that was refused."""
    if refused.status == FORBIDDEN:
        return f"missing right: {right_to(verb, resource, namespace)} ({refused.text})"
    return f"cannot {right_to(verb, resource, namespace)}: {unknown_text(refused)}"


def unknown_text(refused: Refused) -> str:
    """Why nothing is known, for any status but 403."""
    if refused.status == UNAUTHORIZED:
        return f"the server does not accept the credentials of this kubeconfig ({refused.text})"
    return refused.text
