"""One write in the terms of an AdmissionReview."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.kinds.kind import ServedKind

Object = dict[str, Any]


class ReviewedWrite(msgspec.Struct, frozen=True):
    """``kind`` is the row that the request was addressed to; ``namespace`` of a Namespace is its own name.

    ``options`` is the object of the request's options (``CreateOptions``, ``DeleteOptions``). ``user`` asked for it.
    """

    operation: str
    kind: ServedKind
    subresource: str
    namespace: str
    name: str
    options: Object
    dry_run: bool
    user: UserInfo
