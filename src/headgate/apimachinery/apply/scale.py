"""Managed fields across the ``scale`` subresource, whose object is another kind.

The managers of ``spec.replicas`` of a Deployment are shown as managers of ``spec.replicas`` of its Scale
(:func:`scale_entries`); after the Scale was written, :func:`parent_entries` carries the outcome back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from headgate.apimachinery.apply.field_sets import Path, difference, from_paths, has
from headgate.apimachinery.apply.managed_fields import Managers, VersionedFieldSet, read_entries, write_entries

SCALE_VERSION: Final = "autoscaling/v1"
REPLICAS: Final[Path] = ("f:spec", "f:replicas")


# Where the parent counts its replicas, by version; None in a version that does not.
Places: TypeAlias = "Mapping[str, Path | None]"


def scale_entries(entries: Sequence[Any] | None, places: Places) -> list[dict[str, Any]]:
    """The entries of a Scale made from a parent that counts its replicas in these places."""
    out: Managers = {
        identity: VersionedFieldSet(from_paths([REPLICAS]), SCALE_VERSION, owned.time)
        for identity, owned in _read(entries).items()
        if (place := places.get(owned.api_version)) is not None and has(owned.fields, place)
    }
    return write_entries(out)


def parent_entries(
    entries: Sequence[Any] | None, scale: Sequence[Any] | None, api_version: str, places: Places
) -> list[dict[str, Any]]:
    """The entries of the parent, written in ``api_version``, after its Scale, with the entries ``scale``, was."""
    before, after = _read(entries), _read(scale)
    count = from_paths([places.get(api_version) or REPLICAS])
    out: Managers = {}
    for identity, owned in before.items():
        if owned.api_version not in places:
            continue
        place = places[owned.api_version]
        if place is None or not has(owned.fields, place):
            out[identity] = owned
        elif identity in after:
            out[identity] = owned
            del after[identity]
        else:
            rest = difference(owned.fields, from_paths([place]))
            if rest:
                out[identity] = owned._replace(fields=rest)
    for identity, owned in after.items():
        if has(owned.fields, REPLICAS):
            known = before.get(identity)
            out[identity] = VersionedFieldSet(count, api_version, known.time if known is not None else None)
    return write_entries(out)


def _read(entries: Sequence[Any] | None) -> Managers:
    managers = read_entries(entries)
    return {} if isinstance(managers, str) else managers
