"""Long objects in the forms in which watches send them, shared by all watches.

All watches of a resource send the same change at about the same time. Without this cache, each of them would decode or
convert a long object again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

from headgate.apiserver.kinds.kind import ServedKind
from headgate.store import Item

_MAX_FORMS: Final = 8
T = TypeVar("T")


class LongObjectCache:
    def __init__(self) -> None:
        self._forms: Final[OrderedDict[tuple[str, str, str, int], tuple[object, Any]]] = OrderedDict()

    def form(self, name: str, kind: ServedKind, item: Item, make: Callable[[], T]) -> T:
        """The form of ``item`` in the version of ``kind``, made once. It must not be changed."""
        key = (name, kind.version, item.resource, int(item.revision))
        scheme, found = self._forms.get(key, (None, None))
        if found is None or scheme is not kind.scheme:  # a changed definition has a new scheme
            found = make()
            self._forms[key] = kind.scheme, found
            if len(self._forms) > _MAX_FORMS:
                self._forms.popitem(last=False)
        form: T = found
        return form
