"""Ways between versions of custom kinds that the embedded server knows itself, where a real one asks a webhook."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import msgspec

from headgate.apiserver.kinds.form import ConvertObject
from headgate.client.installing import Ask
from headgate.client.transport import Request, Response
from headgate.client.writes import ACCEPT
from headgate.quota.kinds.conversion import convert
from headgate.quota.names import GROUP

CONVERSIONS: Final[dict[str, ConvertObject]] = {GROUP: convert}
_OURS: Final = "+headgate."
"""What the version of our own server has after Kubernetes' (``apiserver/discovery.py``)."""


def converts_itself() -> Generator[Ask, Response, bool]:
    """Whether the server is one that has them."""
    answer = yield Ask(Request("GET", "/version", "", ACCEPT))
    return answer.ok and _OURS in str(msgspec.json.decode(answer.body, type=dict).get("gitVersion"))
