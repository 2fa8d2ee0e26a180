"""What an admission plugin gets to know: the request in the terms of admission, and the cluster around it.

:class:`Attributes` says who does what to which endpoint. :class:`View` is how a plugin looks at other objects; what it
returns belongs to the view and must not be changed. ``apiserver/admission.py`` makes both; the plugins in this folder
only read them, so that they run in a test without a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, Protocol

import msgspec

from headgate.kube import status

Object = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE"]

_UNNAMED: Final = "Unknown"


def _unheard(*texts: str) -> None:
    """Warnings that nobody waits for."""


class Attributes(msgspec.Struct, frozen=True):
    """One write. ``resource`` is the plural with its group; an object that is to be named by the server has no name.

    ``warn`` tells whoever asked for the write something that does not stop it.
    """

    operation: Operation
    resource: status.GroupResource
    kind: str
    subresource: str
    namespace: str
    name: str
    user: str
    dry_run: bool
    warn: Callable[..., None] = _unheard

    def forbidden(self, new: Object, problem: str) -> status.ApiError:
        """A plugin's refusal. A name that is still to be generated is shown by its beginning."""
        metadata = new.get("metadata") or {}
        name = self.name or metadata.get("name") or metadata.get("generateName") or _UNNAMED
        return status.forbidden(self.resource, name, problem)


class View(Protocol):
    """The cluster as the write finds it.

    Resources are named as in the store: ``pods``, ``priorityclasses.scheduling.k8s.io``. ``namespace`` is empty for
    what has none; ``None`` lists every namespace.
    """

    def get(self, resource: str, namespace: str, name: str) -> Object | None: ...

    def labels(self, resource: str, namespace: str, name: str) -> Mapping[str, str] | None:
        """The labels of one object, without reading the rest of it; ``None`` if it does not exist."""
        ...

    def list(self, resource: str, namespace: str | None) -> Iterable[Object]: ...


# The new object (empty when one is deleted) and the old one (``None`` when one is created). A mutating plugin replaces
# fields at the top of the new object (``new["spec"] = {...}``); deeper down it may share structure with the old one.
Plugin = Callable[[Attributes, Object, "Object | None", View], "status.ApiError | None"]
