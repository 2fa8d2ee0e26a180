"""One write with the attributes of an AdmissionReview."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.kinds.kind import ServedKind

Object = dict[str, Any]


class ReviewedWrite(msgspec.Struct, frozen=True):
    """``kind``: the kind of the request. ``namespace``: for a Namespace its own name.

    ``options``: the options object of the request (``CreateOptions``, ``DeleteOptions``). ``user``: its user.
    """

    operation: str
    kind: ServedKind
    subresource: str
    namespace: str
    name: str
    options: Object
    dry_run: bool
    user: UserInfo
