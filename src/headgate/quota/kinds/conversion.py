"""v1beta1 <-> v1beta2 of ``kueue.x-k8s.io``, so that a round trip is the identity.

Each kind has a plain way there and back (``spelling.py``), on which something may be lost: ``Borrow`` becomes
``MayStopSearch``, ``preemptionGates`` has no place in v1beta1. What is lost is kept in an annotation of the object and
comes back with it, unless somebody has changed the same place in the other version meanwhile. Pure: the embedded server
calls ``convert`` itself, a real one asks a webhook (``review.py``).
"""

from __future__ import annotations

from typing import Any, Final

from headgate.quota.kinds import residue
from headgate.quota.kinds.names import API_VERSION, OLDER_API_VERSION
from headgate.quota.kinds.residue import Place
from headgate.quota.kinds.spelling import KINDS, LINKED, Plain

Object = dict[str, Any]

FROM_OLDER: Final = "headgate.dev/v1beta1"
"""On an object in v1beta2: what only its v1beta1 says."""
FROM_STORED: Final = "headgate.dev/v1beta2"
"""On an object in v1beta1: what only its v1beta2 says."""
_KEPT: Final = {API_VERSION: FROM_OLDER, OLDER_API_VERSION: FROM_STORED}


def convert(obj: Object, api_version: str) -> Object:
    """``obj``, which is not changed, in another version. What is of no kind here only changes its version."""
    before = obj.get("apiVersion")
    if before == api_version:
        return obj
    ways = KINDS.get(obj.get("kind") or "")
    if ways is None or before not in _KEPT or api_version not in _KEPT:
        return {**obj, "apiVersion": api_version}
    there, back = (ways.newer, ways.older) if api_version == API_VERSION else (ways.older, ways.newer)
    return _convert(obj, api_version, there, back, restored_by=_KEPT[before], kept_by=_KEPT[api_version])


def _convert(obj: Object, api_version: str, there: Plain, back: Plain, *, restored_by: str, kept_by: str) -> Object:
    places, bare = _take(obj, restored_by)
    moved = there(bare)
    lost = residue.find({**back(moved), "apiVersion": bare["apiVersion"]}, bare)
    made = {**residue.restore(moved, places, LINKED), "apiVersion": api_version}
    return _annotated(made, kept_by, residue.write(lost)) if lost else made


def _take(obj: Object, key: str) -> tuple[tuple[Place, ...], Object]:
    """What was kept for the version that is wanted now, and the object without it."""
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(key) if isinstance(annotations, dict) else None
    places = residue.read(text) if isinstance(text, str) else None
    if places is None or not isinstance(metadata, dict) or not isinstance(annotations, dict):
        return (), obj  # somebody else's: an annotation as any other
    left = {name: value for name, value in annotations.items() if name != key}
    bare = {name: value for name, value in metadata.items() if name != "annotations"}
    return places, {**obj, "metadata": {**bare, "annotations": left} if left else bare}


def _annotated(obj: Object, key: str, text: str) -> Object:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    annotations = metadata.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    return {**obj, "metadata": {**metadata, "annotations": {**annotations, key: text}}}
