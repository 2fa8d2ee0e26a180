"""Objects of one resource as they were last seen, by name: told by the watch, or answered to our own writes.

What a server answered counts as seen at once. So news may come late: what is older than what is known changes nothing,
what is gone stays gone, and an object that only an answer told of is dropped when a whole list does not have it. After
a crash all of it is rebuilt from lists. ``families/family.py`` does the same for owners and their dependents.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, Generic, TypeVar

from headgate.kube.revisions import revision_of

Object = dict[str, Any]
Place = TypeVar("Place", bound=Hashable)

_REMEMBERED: Final = 10_000


class Latest(Generic[Place]):
    def __init__(self) -> None:
        self._objects: Final[dict[Place, Object]] = {}
        self._answered: Final[dict[Place, int]] = {}  # what only our own writes told of, and at which revision
        self._gone: Final[dict[str, None]] = {}  # uids, the last ones

    def get(self, place: Place) -> Object | None:
        return self._objects.get(place)

    def put(self, place: Place, obj: Object, *, told: bool) -> bool:
        """Whether that is the latest now. ``told``: by the watch. Its echo of an own write is news, too: the answer may
        have brought a change that nobody has looked at yet."""
        metadata, known = obj["metadata"], self._objects.get(place)
        if metadata["uid"] in self._gone:
            return False
        if known is not None and 0 < revision_of(obj) < revision_of(known):
            return False
        is_another = known is None or known["metadata"]["uid"] != metadata["uid"]
        if told:
            self._answered.pop(place, None)
        elif is_another or place in self._answered:
            self._answered[place] = revision_of(obj)
        if known is not None and is_another:
            self._bury(known["metadata"]["uid"])
        self._objects[place] = obj
        return True

    def remove(self, place: Place, uid: str) -> Object | None:
        """What was there, if it is that one which has gone."""
        self._bury(uid)
        known = self._objects.get(place)
        if known is None or known["metadata"]["uid"] != uid:
            return None
        self._answered.pop(place, None)
        return self._objects.pop(place)

    def missing(self, revision: str) -> list[tuple[Place, str]]:
        """A whole list has been told: what it did not have is no more, each with its uid, for who removes it."""
        if not revision.isdecimal():
            return []
        lost = [place for place, written in self._answered.items() if written <= int(revision)]
        return [(place, str(self._objects[place]["metadata"]["uid"])) for place in lost]

    def _bury(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
