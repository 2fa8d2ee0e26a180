"""Managed fields across the ``scale`` subresource, whose object is another kind.

The managers of ``spec.replicas`` of a Deployment are shown as managers of ``spec.replicas`` of its Scale
(:func:`scale_entries`); after the Scale was written, :func:`parent_entries` carries the outcome back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.kube.apply.managers import Managers, Owned, read_entries, write_entries
from headgate.kube.apply.sets import Path, difference, from_paths, has

SCALE_VERSION: Final = "autoscaling/v1"
REPLICAS: Final[Path] = ("f:spec", "f:replicas")


def scale_entries(entries: Sequence[Any] | None, api_version: str, replicas: Path = REPLICAS) -> list[dict[str, Any]]:
    """The entries of a Scale made from a parent whose ``replicas`` are counted in ``api_version``."""
    out: Managers = {
        identity: Owned(from_paths([REPLICAS]), SCALE_VERSION, owned.time)
        for identity, owned in _read(entries).items()
        if owned.api_version == api_version and has(owned.fields, replicas)
    }
    return write_entries(out)


def parent_entries(
    entries: Sequence[Any] | None, scale: Sequence[Any] | None, api_version: str, replicas: Path = REPLICAS
) -> list[dict[str, Any]]:
    """The entries of the parent after its Scale, with the entries ``scale``, was written."""
    before, after = _read(entries), _read(scale)
    count = from_paths([replicas])
    out: Managers = {}
    for identity, owned in before.items():
        if owned.api_version != api_version:
            continue
        if not has(owned.fields, replicas):
            out[identity] = owned
        elif identity in after:
            out[identity] = owned
            del after[identity]
        else:
            rest = difference(owned.fields, count)
            if rest:
                out[identity] = owned._replace(fields=rest)
    for identity, owned in after.items():
        if has(owned.fields, REPLICAS):
            known = before.get(identity)
            out[identity] = Owned(count, api_version, known.time if known is not None else None)
    return write_entries(out)


def _read(entries: Sequence[Any] | None) -> Managers:
    managers = read_entries(entries)
    return {} if isinstance(managers, str) else managers
