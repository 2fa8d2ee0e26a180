"""Who is to be told of whom: jobs by their uid, their children by the uid of who controls them, and jobs that wait for
a Workload which somebody else makes.

An index and nothing else; whose child a job is in the end, ``ancestors.py`` says.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, TypeVar

from headgate.jobs.kind import Object
from headgate.jobs.workload import prebuilt_name, queue_of
from headgate.kube.references import controller_of

Key = tuple[str, str, str]
"""The name of a kind of job, a namespace and a name; :data:`NOBODY` and the Workload's own, if it was taken from its
job."""
NOBODY: Final = ""
At = TypeVar("At", bound=Hashable)


class Kin:
    def __init__(self) -> None:
        self._keys: Final[dict[str, Key]] = {}
        self._parents: Final[dict[Key, str]] = {}  # uids
        self._children: Final[dict[str, dict[Key, None]]] = {}
        self._waits: Final[dict[Key, tuple[str, str]]] = {}
        self._waiting: Final[dict[tuple[str, str], dict[Key, None]]] = {}
        self._shown: Final[dict[Key, tuple[str, str, str]]] = {}

    def put(self, key: Key, job: Object) -> list[Key]:
        """Those below it, if it is something else to them now."""
        metadata = job["metadata"]
        parent = str((controller_of(job) or {}).get("uid", ""))
        shown = metadata["uid"], queue_of(job), parent
        name = prebuilt_name(job)
        _hang(self._waits, self._waiting, key, (key[1], name) if name else None)
        if self._shown.get(key) == shown:
            return []
        before = self._shown.get(key)
        if before is not None and before[0] != metadata["uid"]:
            self._keys.pop(before[0], None)
        self._shown[key] = shown
        self._keys[metadata["uid"]] = key
        _hang(self._parents, self._children, key, parent or None)
        return list(self.below(metadata["uid"]))

    def remove(self, key: Key) -> list[Key]:
        shown = self._shown.pop(key, None)
        _hang(self._waits, self._waiting, key, None)
        _hang(self._parents, self._children, key, None)
        if shown is None:
            return []
        self._keys.pop(shown[0], None)
        return list(self.below(shown[0]))

    def key_of(self, uid: str) -> Key | None:
        return self._keys.get(uid)

    def waiting(self, namespace: str, workload: str) -> list[Key]:
        """Who waits for a Workload of that name."""
        return list(self._waiting.get((namespace, workload), ()))

    def inside(self, namespace: str) -> list[Key]:
        return [key for key in self._shown if key[1] == namespace]

    def below(self, uid: str) -> Iterator[Key]:
        """Children and theirs."""
        seen, left = {uid}, [uid]
        while left:
            for key in self._children.get(left.pop(), ()):
                found = self._shown[key][0]
                if found not in seen:
                    seen.add(found)
                    left.append(found)
                    yield key


def _hang(places: dict[Key, At], index: dict[At, dict[Key, None]], key: Key, at: At | None) -> None:
    before = places.get(key)
    if before == at:
        return
    if before is not None:
        del places[key]
        index[before].pop(key, None)
        if not index[before]:
            del index[before]
    if at is not None:
        places[key] = at
        index.setdefault(at, {})[key] = None
