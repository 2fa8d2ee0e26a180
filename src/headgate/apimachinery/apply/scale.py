"""Converts managed fields between a workload (the *parent*) and its ``scale`` subresource, which is another kind.

The managers of ``spec.replicas`` of a Deployment are shown as managers of ``spec.replicas`` of its Scale
(:func:`scale_entries`); after the Scale was written, :func:`parent_entries` converts the result back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from headgate.apimachinery.apply.field_sets import Path, difference, from_paths, has
from headgate.apimachinery.apply.managed_fields import Managers, VersionedFieldSet, read_entries, write_entries

SCALE_VERSION: Final = "autoscaling/v1"
REPLICAS: Final[Path] = ("f:spec", "f:replicas")


# The path of the replicas in the parent, by version; None in a version without replicas.
ReplicasPaths: TypeAlias = "Mapping[str, Path | None]"


def scale_entries(entries: Sequence[Any] | None, replicas_paths: ReplicasPaths) -> list[dict[str, Any]]:
    """The entries of the Scale of a parent with these entries."""
    out: Managers = {
        identity: VersionedFieldSet(from_paths([REPLICAS]), SCALE_VERSION, owned.time)
        for identity, owned in _read(entries).items()
        if (replicas_path := replicas_paths.get(owned.api_version)) is not None and has(owned.fields, replicas_path)
    }
    return write_entries(out)


def parent_entries(
    entries: Sequence[Any] | None, scale: Sequence[Any] | None, api_version: str, replicas_paths: ReplicasPaths
) -> list[dict[str, Any]]:
    """The entries of the parent in ``api_version`` after its Scale was written with the entries ``scale``."""
    before, after = _read(entries), _read(scale)
    replicas = from_paths([replicas_paths.get(api_version) or REPLICAS])
    out: Managers = {}
    for identity, owned in before.items():
        if owned.api_version not in replicas_paths:
            continue
        replicas_path = replicas_paths[owned.api_version]
        if replicas_path is None or not has(owned.fields, replicas_path):
            out[identity] = owned
        elif identity in after:
            out[identity] = owned
            del after[identity]
        else:
            rest = difference(owned.fields, from_paths([replicas_path]))
            if rest:
                out[identity] = owned._replace(fields=rest)
    for identity, owned in after.items():
        if has(owned.fields, REPLICAS):
            previous = before.get(identity)
            out[identity] = VersionedFieldSet(replicas, api_version, previous.time if previous is not None else None)
    return write_entries(out)


def _read(entries: Sequence[Any] | None) -> Managers:
    managers = read_entries(entries)
    return {} if isinstance(managers, str) else managers
