"""NamespaceLifecycle: refuses writes into a missing namespace, and creates in a terminating namespace.

Three namespaces cannot be deleted. Namespaces themselves may always be written. An access review is answered for any
namespace, because "not found" would reveal which namespaces exist.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.apimachinery import api_errors
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister

_NAMESPACES: Final = api_errors.GroupResource("", "namespaces")
_EXEMPT: Final = frozenset({_NAMESPACES, api_errors.GroupResource("authorization.k8s.io", "localsubjectaccessreviews")})
_UNDELETABLE: Final = frozenset({"default", "kube-system", "kube-public"})


def require_namespace(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    namespace = attributes.namespace
    if not namespace or attributes.resource in _EXEMPT:
        return None
    found = lister.get("namespaces", "", namespace)
    if found is None:
        return api_errors.not_found(_NAMESPACES, namespace)
    if attributes.operation == "CREATE" and (found.get("status") or {}).get("phase") == "Terminating":
        return _terminating(attributes, new)
    return None


def _terminating(attributes: AdmissionAttributes, new: Object) -> api_errors.StatusError:
    namespace = attributes.namespace
    text = f"unable to create new content in namespace {namespace} because it is being terminated"
    refusal = attributes.forbidden(new, text)
    cause = api_errors.StatusCause(
        "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
    )
    details = msgspec.structs.replace(refusal.details or api_errors.StatusDetails(), causes=(cause,))
    return msgspec.structs.replace(refusal, details=details)


def refuse_deletion_of_system_namespaces(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    if attributes.name not in _UNDELETABLE:
        return None
    return api_errors.forbidden(_NAMESPACES, attributes.name, "this namespace may not be deleted")
