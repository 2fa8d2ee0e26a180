"""The finalizer that a deletion adds for the object's dependents, by propagation policy.

``orphan`` and ``foregroundDeletion`` tell the garbage collector (``controllers/garbage_collector/controller.py``) what
to do before the object is removed; without either the object is removed at once and its dependents after it. The
request decides first, then a finalizer that is already present, then the default of the kind.
"""

from __future__ import annotations

from typing import Final

from headgate.apiserver.request.options import DeleteOptions

_ORPHAN: Final = "orphan"
_FOREGROUND: Final = "foregroundDeletion"

# Kinds whose dependents stay by default: how these two began, and clients rely on it.
_ORPHANS_DEPENDENTS: Final = frozenset({"jobs.batch", "replicationcontrollers"})
# Kinds that never own anything: a propagation policy means nothing to them.
_WITHOUT_DEPENDENTS: Final = frozenset({"events"})


def finalizers_after(resource: str, present: list[str], wanted: DeleteOptions) -> list[str]:
    """The finalizers of an object as its deletion leaves them; the very list if nothing changes."""
    if resource in _WITHOUT_DEPENDENTS:
        return present
    if resource == "namespaces":
        return _with(present, *_of_namespace(present, wanted))
    by_default = resource in _ORPHANS_DEPENDENTS
    orphan = _decides(present, wanted, "Orphan", _ORPHAN, by_default)
    foreground = wanted.orphan_dependents is None and _decides(present, wanted, "Foreground", _FOREGROUND, False)
    return _with(present, orphan, foreground)


def _with(present: list[str], orphan: bool, foreground: bool) -> list[str]:
    kept = [each for each in present if each not in (_ORPHAN, _FOREGROUND)]
    made = [*kept, *([_ORPHAN] if orphan else []), *([_FOREGROUND] if foreground else [])]
    return present if set(made) == set(present) else made


def _of_namespace(present: list[str], wanted: DeleteOptions) -> tuple[bool, bool]:
    """Namespaces read the old option ``orphanDependents: false`` as "in the foreground", and keep what they have."""
    if wanted.orphan_dependents is not None:
        return wanted.orphan_dependents, not wanted.orphan_dependents
    if wanted.propagation_policy is not None:
        return wanted.propagation_policy == "Orphan", wanted.propagation_policy == "Foreground"
    return _ORPHAN in present, _FOREGROUND in present


def _decides(present: list[str], wanted: DeleteOptions, policy: str, finalizer: str, by_default: bool) -> bool:
    if policy == "Orphan" and wanted.orphan_dependents is not None:
        return wanted.orphan_dependents
    if wanted.propagation_policy is not None:
        return wanted.propagation_policy == policy
    for each in present:
        if each in (_ORPHAN, _FOREGROUND):
            return each == finalizer
    return by_default
