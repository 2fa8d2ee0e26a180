"""ControllerRevisions: the numbered pod templates that a StatefulSet or a DaemonSet has had.

:func:`choose_revision` decides which revision is the current one. A return to an old template gives its revision a new
number, which ``kubectl rollout undo`` relies on. The module also has the steps that write revisions, because both kinds
share them. The caller computes the hash in the name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import Any, Final

import msgspec

from headgate.controllers.framework.effects import Create, Delete, Effect, EffectResponse, Get, Patch
from headgate.kube.api_resources import CONTROLLER_REVISIONS
from headgate.kube.name_hashes import fnv1, safe_encode
from headgate.kube.object_meta import controller_reference
from headgate.kube.schema import GroupVersionKind
from headgate.kube.serializer.go_json import go_json

Object = dict[str, Any]

REVISION_LABEL: Final = "controller-revision-hash"
"""The label of pods with the revision that they were created from."""
_HASH_LABEL: Final = "controller.kubernetes.io/hash"
_MAX_PREFIX: Final = 223
_MAX_COLLISIONS: Final = 100
_EXACT: Final = 1 << 53
"""Beyond this a float64 cannot represent all integers."""


class KeepRevision(msgspec.Struct, frozen=True):
    """The newest revision is the current one."""

    revision: Object


class RenumberRevision(msgspec.Struct, frozen=True):
    """An older revision is the current one; it becomes the newest."""

    revision: Object
    number: int


class CreateRevision(msgspec.Struct, frozen=True):
    """There is no revision of this template yet."""

    number: int


RevisionChoice = KeepRevision | RenumberRevision | CreateRevision


class RevisionResult(msgspec.Struct, frozen=True):
    """A revision, or why there is none; and how many names were already taken."""

    revision: Object | None
    collisions: int
    problem: str = ""


def data_of(owner: Object, kind: GroupVersionKind) -> Object:
    """The data of a revision: a patch that restores the present template of the owner.

    Its JSON has exactly the bytes of kube-controller-manager, because ``kubectl rollout undo`` compares bytes.
    """
    data: Object = _canonical({"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}, kind)
    return data


def _canonical(value: Any, kind: GroupVersionKind) -> Any:
    """Sorts maps by key. kube-controller-manager reads the numbers of a StatefulSet as float64, those of a DaemonSet
    exactly."""
    match value:
        case dict():
            return {key: _canonical(value[key], kind) for key in sorted(value)}
        case list():
            return [_canonical(each, kind) for each in value]
        case int() if abs(value) > _EXACT and kind.kind == "StatefulSet":
            return int(float(value))
    return value


def _has_data(revision: Object, data: Object, kind: GroupVersionKind) -> bool:
    """Whether it is the revision of this template. Earlier versions of Headgate stored the keys in another order and
    exact numbers. They count as equal, because otherwise an upgrade would start a rollout."""
    kept: Object = revision.get("data") or {}
    return kept == data or bool(_canonical(kept, kind) == data)


def template_of(revision: Object) -> Object:
    template: Object = ((revision.get("data") or {}).get("spec") or {}).get("template") or {}
    return {key: value for key, value in template.items() if key != "$patch"}


def number_of(revision: Object) -> int:
    return int(revision.get("revision") or 0)


def in_order(revisions: Iterable[Object]) -> list[Object]:
    """From the oldest to the newest."""

    def age(revision: Object) -> tuple[int, str, str]:
        metadata = revision["metadata"]
        return number_of(revision), metadata.get("creationTimestamp", ""), metadata["name"]

    return sorted(revisions, key=age)


def choose_revision(revisions: Sequence[Object], data: Object, kind: GroupVersionKind) -> RevisionChoice:
    """``revisions`` are in order."""
    number = number_of(revisions[-1]) + 1 if revisions else 1
    equal = [each for each in revisions if _has_data(each, data, kind)]
    if not equal:
        return CreateRevision(number)
    return KeepRevision(equal[-1]) if equal[-1] is revisions[-1] else RenumberRevision(equal[-1], number)


def excess_revisions(revisions: Sequence[Object], live: Collection[str], limit: int) -> list[Object]:
    """The oldest unused revisions beyond ``limit``. ``revisions`` are in order; ``live``: names of used ones."""
    unused = [each for each in revisions if each["metadata"]["name"] not in live]
    return unused[: max(len(unused) - limit, 0)] if limit >= 0 else []


def data_hash(data: Object, collisions: int) -> str:
    """The hash in the name of a StatefulSet's revision, of the same bytes as upstream."""
    return safe_encode(fnv1(go_json(data) + str(collisions).encode()))


def new_revision(owner: Object, kind: GroupVersionKind, number: int, hash_: str, label: str = _HASH_LABEL) -> Object:
    meta = owner["metadata"]
    labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    metadata: Object = {
        "name": f"{meta['name'][:_MAX_PREFIX]}-{hash_}",
        "namespace": meta["namespace"],
        "labels": {**labels, label: hash_},
        "ownerReferences": [controller_reference(owner, kind)],
    }
    if meta.get("annotations"):
        metadata["annotations"] = dict(meta["annotations"])
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "data": data_of(owner, kind),
        "revision": number,
    }


# -- steps -------------------------------------------------------------------------------------------------------------


def create_revision(
    make: Callable[[int], Object], collisions: int, kind: GroupVersionKind
) -> Generator[Effect, EffectResponse, RevisionResult]:
    """Creates the revision that ``make`` returns for a number of collisions. Each name that is taken by another
    revision counts as one more collision."""
    for _ in range(_MAX_COLLISIONS):
        revision = make(collisions)
        namespace, name = revision["metadata"]["namespace"], revision["metadata"]["name"]
        response = yield Create(CONTROLLER_REVISIONS, namespace, revision)
        if response.conflict:
            response = yield Get(CONTROLLER_REVISIONS, namespace, name)
            if response.ok and not _has_data(response.body, revision["data"], kind):
                collisions += 1
                continue
        if response.ok:
            return RevisionResult(response.body, collisions)
        return RevisionResult(None, collisions, response.message)
    return RevisionResult(None, collisions, "every name for a new ControllerRevision is taken")


def renumber_revision(revision: Object, number: int) -> Generator[Effect, EffectResponse, EffectResponse]:
    metadata = revision["metadata"]
    body = {"metadata": {"uid": metadata["uid"]}, "revision": number}
    return (yield Patch(CONTROLLER_REVISIONS, metadata["namespace"], metadata["name"], body, "merge"))


def delete_revision(revision: Object) -> Generator[Effect, EffectResponse, EffectResponse]:
    metadata = revision["metadata"]
    options = {"preconditions": {"uid": metadata["uid"]}}
    return (yield Delete(CONTROLLER_REVISIONS, metadata["namespace"], metadata["name"], options))
