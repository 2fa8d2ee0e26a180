"""The path grammar of a Kubernetes API server.

``/api/v1/...`` and ``/apis/<group>/<version>/...`` are split by hand into a :class:`Route`; everything else is left
to ``apiserver/handle.py`` (health, discovery, version). Whether the named resource exists is not asked here: the
kinds table answers that.
"""

from __future__ import annotations

from typing import Final

import msgspec

_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})


class Route(msgspec.Struct, frozen=True):
    """A request to a resource. ``name`` is empty for a collection; ``rest`` holds what follows a subresource."""

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()
    deprecated_watch: bool = False


def parse(path: str) -> Route | None:
    """``None``: not a path below a group version. A slash at the end changes nothing, an empty segment does."""
    parts = path.removesuffix("/").removeprefix("/").split("/")
    match parts:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    if not rest:
        return None
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource, *tail = (*rest, "", "", "")
    return Route(
        group=group,
        version=version,
        resource=resource,
        namespace=namespace,
        name=name,
        subresource=subresource,
        rest=tuple(each for each in tail if each),
        deprecated_watch=watch,
    )
