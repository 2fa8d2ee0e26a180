"""The PersistentVolumeClaims by name, and the pods that wait for the deletion of one.

As in ``controllers/ownership/cache.py``, own writes count as seen at once, and older watch events change nothing.
Claims have no owner by rule, so the ownership cache does not fit.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.ownership.cache import Key
from headgate.kube.integers import read_natural
from headgate.kube.object_meta import resource_version_of

Object = dict[str, Any]


class ClaimCache:
    def __init__(self) -> None:
        self._claims: Final[dict[Key, Object]] = {}
        self._unconfirmed: Final[dict[Key, int]] = {}
        self._waiting: Final[dict[Key, dict[Key, None]]] = {}

    def get(self, namespace: str, name: str) -> Object | None:
        return self._claims.get((namespace, name))

    def wait_until_gone(self, namespace: str, name: str, who: Key) -> None:
        """Until the claim is gone."""
        self._waiting.setdefault((namespace, name), {})[who] = None

    def applied(self, obj: Object) -> None:
        place = _place(obj)
        known = self._claims.get(place)
        if known is None or _is_newer(obj, known):
            self._claims[place] = obj
        self._unconfirmed.pop(place, None)

    def wrote(self, obj: Object) -> None:
        place = _place(obj)
        known = self._claims.get(place)
        if known is None or _is_newer(obj, known):
            if known is None or place in self._unconfirmed:
                self._unconfirmed[place] = resource_version_of(obj)
            self._claims[place] = obj

    def removed(self, namespace: str, name: str, uid: str) -> list[Key]:
        """Who waited for it."""
        place = namespace, name
        known = self._claims.get(place)
        if known is None or known["metadata"]["uid"] != uid:
            return []
        del self._claims[place]
        self._unconfirmed.pop(place, None)
        return list(self._waiting.pop(place, ()))

    def synced(self, revision: str) -> None:
        """A whole list was told: what it did not have is no more."""
        told = read_natural(revision) or 0
        for place in [place for place, written in self._unconfirmed.items() if written <= told]:
            del self._claims[place], self._unconfirmed[place]


def _place(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata["namespace"], metadata["name"]


def _is_newer(obj: Object, known: Object) -> bool:
    return obj["metadata"]["uid"] != known["metadata"]["uid"] or resource_version_of(obj) > resource_version_of(known)
