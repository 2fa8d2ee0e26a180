"""The input of an admission plugin: the attributes of the request, and a lister of other objects.

:class:`AdmissionAttributes` describes the operation, the user and the endpoint. :class:`ObjectLister` reads other
objects; the objects that it returns must not be changed. ``apiserver/admission/admission_chain.py`` builds both. The
plugins of this package only read them, so a test needs no server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, Protocol

import msgspec

from headgate.apimachinery import api_errors

Object = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE"]

_UNNAMED: Final = "Unknown"


def _discard(*texts: str) -> None:
    """Discards warnings."""


class AdmissionAttributes(msgspec.Struct, frozen=True):
    """One write. ``resource`` is the plural with its group; an object whose name the server generates has no name.

    ``warn`` sends the client a warning that does not stop the write. ``groups`` are those of the user.
    """

    operation: Operation
    resource: api_errors.GroupResource
    kind: str
    subresource: str
    namespace: str
    name: str
    user: str
    dry_run: bool
    warn: Callable[..., None] = _discard
    groups: tuple[str, ...] = ()

    def forbidden(self, new: Object, problem: str) -> api_errors.StatusError:
        """A plugin's refusal. For a name that will be generated, ``generateName`` is shown."""
        metadata = new.get("metadata") or {}
        name = self.name or metadata.get("name") or metadata.get("generateName") or _UNNAMED
        return api_errors.forbidden(self.resource, name, problem)


class ObjectLister(Protocol):
    """The cluster at the time of the write.

    Resources are named as in the store: ``pods``, ``priorityclasses.scheduling.k8s.io``. ``namespace`` is empty for
    cluster-scoped objects; ``None`` lists every namespace.
    """

    def get(self, resource: str, namespace: str, name: str) -> Object | None: ...

    def labels(self, resource: str, namespace: str, name: str) -> Mapping[str, str] | None:
        """The labels of one object, without reading the rest of it; ``None`` if it does not exist."""
        ...

    def list(self, resource: str, namespace: str | None) -> Iterable[Object]: ...


# The arguments are the attributes, the new object (empty for a delete), the old object (``None`` for a create) and the
# lister. A mutating plugin replaces top-level fields of the new object (``new["spec"] = {...}``). It must not change
# nested values, because the old object may share them.
Plugin = Callable[[AdmissionAttributes, Object, "Object | None", ObjectLister], "api_errors.StatusError | None"]
