"""One write, in the terms in which a webhook is told of it."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apiserver.access.user import User
from headgate.apiserver.kinds.kind import Kind

Object = dict[str, Any]


class Write(msgspec.Struct, frozen=True):
    """``kind`` is the row that the request was addressed to; ``namespace`` of a Namespace is its own name.

    ``options`` is the object of the request's options (``CreateOptions``, ``DeleteOptions``). ``user`` asked for it.
    """

    operation: str
    kind: Kind
    subresource: str
    namespace: str
    name: str
    options: Object
    dry_run: bool
    user: User
