"""NamespaceLifecycle: nothing is written into a namespace that is missing, nothing new into one that is going away.

Three namespaces cannot be deleted at all. Namespaces themselves may always be written, and a review of somebody's
access is answered for any namespace, because the answer "not found" would tell which namespaces exist.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.apiserver.builtin.attributes import Attributes, Object, View
from headgate.kube import status

_NAMESPACES: Final = status.GroupResource("", "namespaces")
_EXEMPT: Final = frozenset({_NAMESPACES, status.GroupResource("authorization.k8s.io", "localsubjectaccessreviews")})
_IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})


def require_namespace(attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
    namespace = attributes.namespace
    if not namespace or attributes.resource in _EXEMPT:
        return None
    found = view.get("namespaces", "", namespace)
    if found is None:
        return status.not_found(_NAMESPACES, namespace)
    if attributes.operation == "CREATE" and (found.get("status") or {}).get("phase") == "Terminating":
        return _terminating(attributes, new)
    return None


def _terminating(attributes: Attributes, new: Object) -> status.ApiError:
    namespace = attributes.namespace
    text = f"unable to create new content in namespace {namespace} because it is being terminated"
    refusal = attributes.forbidden(new, text)
    cause = status.Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
    details = msgspec.structs.replace(refusal.details or status.Details(), causes=(cause,))
    return msgspec.structs.replace(refusal, details=details)


def spare_immortal(attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
    if attributes.name not in _IMMORTAL:
        return None
    return status.forbidden(_NAMESPACES, attributes.name, "this namespace may not be deleted")
