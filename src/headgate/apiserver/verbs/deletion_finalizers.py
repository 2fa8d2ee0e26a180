"""The finalizer that a deletion adds for the object's dependents, by propagation policy.

``orphan`` and ``foregroundDeletion`` tell the garbage collector (``controllers/garbage_collector/controller.py``) what
to do before the object is removed. Without either of them, the object is removed at once and its dependents after it.
The propagation policy is that of the request; if the request has none, that of a finalizer that is already present;
otherwise the default of the kind.
"""

from __future__ import annotations

from typing import Final

from headgate.apiserver.request.options import DeleteOptions

_ORPHAN: Final = "orphan"
_FOREGROUND: Final = "foregroundDeletion"

# Kinds whose dependents are orphaned by default, as in Kubernetes.
_ORPHANS_DEPENDENTS: Final = frozenset({"jobs.batch", "replicationcontrollers"})
# Kinds that never own objects: the propagation policy is ignored.
_WITHOUT_DEPENDENTS: Final = frozenset({"events"})


def finalizers_after(resource: str, present: list[str], delete_options: DeleteOptions) -> list[str]:
    """The finalizers of an object after its deletion; the same list if nothing changes."""
    if resource in _WITHOUT_DEPENDENTS:
        return present
    if resource == "namespaces":
        return _with_policy(present, *_namespace_policy(present, delete_options))
    by_default = resource in _ORPHANS_DEPENDENTS
    orphan = _applies(present, delete_options, "Orphan", _ORPHAN, by_default)
    foreground = delete_options.orphan_dependents is None and _applies(
        present, delete_options, "Foreground", _FOREGROUND, False
    )
    return _with_policy(present, orphan, foreground)


def _with_policy(present: list[str], orphan: bool, foreground: bool) -> list[str]:
    """The finalizers with those of the policy; the same list if nothing changes."""
    kept = [each for each in present if each not in (_ORPHAN, _FOREGROUND)]
    finalizers = [*kept, *([_ORPHAN] if orphan else []), *([_FOREGROUND] if foreground else [])]
    return present if set(finalizers) == set(present) else finalizers


def _namespace_policy(present: list[str], delete_options: DeleteOptions) -> tuple[bool, bool]:
    """Whether the policy of a namespace is orphan, and whether it is foreground.

    Differently from other kinds, ``orphanDependents: false`` means foreground, and without a policy in the request the
    finalizers stay.
    """
    if delete_options.orphan_dependents is not None:
        return delete_options.orphan_dependents, not delete_options.orphan_dependents
    if delete_options.propagation_policy is not None:
        return delete_options.propagation_policy == "Orphan", delete_options.propagation_policy == "Foreground"
    return _ORPHAN in present, _FOREGROUND in present


def _applies(present: list[str], delete_options: DeleteOptions, policy: str, finalizer: str, by_default: bool) -> bool:
    """Whether ``policy``, whose finalizer is ``finalizer``, applies to the deletion."""
    if policy == "Orphan" and delete_options.orphan_dependents is not None:
        return delete_options.orphan_dependents
    if delete_options.propagation_policy is not None:
        return delete_options.propagation_policy == policy
    for each in present:
        if each in (_ORPHAN, _FOREGROUND):
            return each == finalizer
    return by_default
