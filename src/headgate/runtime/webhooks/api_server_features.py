"""What the API server that calls the webhooks can do, from the version that it reports.

The embedded server calls Headgate's handlers and conversions in its own process, and evaluates no CEL expressions.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from headgate.client import write_requests
from headgate.http.transport import HTTPRequest, Transport
from headgate.kube.serializer import wire_json

_EMBEDDED: Final = "+headgate."
"""The suffix in the version of the embedded server (``apiserver/discovery/documents.py``)."""
_VERSION: Final = re.compile(r"v(\d+)\.(\d+)")
_MATCH_CONDITIONS: Final = (1, 30)
"""The first version in which ``matchConditions`` of webhooks are stable."""


class APIServerFeatures(msgspec.Struct, frozen=True):
    """``converts``: the server converts Kueue's kinds without a webhook. ``match_conditions``: it evaluates the
    conditions of webhook configurations; an older server drops the field."""

    converts: bool = False
    match_conditions: bool = False


async def read_features(transport: Transport) -> APIServerFeatures:
    response = await transport.request(HTTPRequest("GET", "/version", "", write_requests.ACCEPT))
    if not response.ok:
        return APIServerFeatures()
    version = str(wire_json.WireDecoder(dict[str, Any]).decode(response.body).get("gitVersion"))
    if _EMBEDDED in version:
        return APIServerFeatures(converts=True)
    found = _VERSION.match(version)
    return APIServerFeatures(
        match_conditions=found is not None and tuple(map(int, found.groups())) >= _MATCH_CONDITIONS
    )
