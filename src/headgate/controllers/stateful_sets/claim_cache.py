"""The cache of PersistentVolumeClaims by name, and the StatefulSets that wait until a claim is deleted.

Most claims have no owner, so ``controllers/ownership/cache.py`` cannot be used for them.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.framework.mutation_cache import MutationCache
from headgate.controllers.ownership.cache import Key

Object = dict[str, Any]


class ClaimCache:
    def __init__(self) -> None:
        self._claims: Final[MutationCache[Key]] = MutationCache()
        self._waiting: Final[dict[Key, dict[Key, None]]] = {}

    def get(self, namespace: str, name: str) -> Object | None:
        return self._claims.get((namespace, name))

    def wait_until_gone(self, namespace: str, name: str, owner: Key) -> None:
        """Records that the owner waits until the claim is deleted."""
        self._waiting.setdefault((namespace, name), {})[owner] = None

    def applied(self, obj: Object) -> None:
        self._claims.put(_key(obj), obj, from_watch=True)

    def observe_write(self, obj: Object) -> None:
        self._claims.put(_key(obj), obj, from_watch=False)

    def removed(self, namespace: str, name: str, uid: str) -> list[Key]:
        """Returns the owners that waited for the deletion."""
        key = namespace, name
        return [] if self._claims.remove(key, uid) is None else list(self._waiting.pop(key, ()))

    def synced(self, revision: str) -> None:
        """A complete list was delivered: removes claims that it did not have."""
        self._claims.remove_missing(revision)


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata["namespace"], metadata["name"]
