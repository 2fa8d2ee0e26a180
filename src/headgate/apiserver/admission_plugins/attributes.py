"""The input of an admission plugin: the request in the terms of admission, and a view of the cluster.

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

    ``warn`` sends the client a warning that does not stop the write.
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


# The new object (empty when one is deleted) and the old one (``None`` when one is created). A mutating plugin replaces
# fields at the top of the new object (``new["spec"] = {...}``); deeper down it may share structure with the old one.
Plugin = Callable[[AdmissionAttributes, Object, "Object | None", ObjectLister], "api_errors.StatusError | None"]
