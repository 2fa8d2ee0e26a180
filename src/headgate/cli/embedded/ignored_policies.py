"""Says in the status of GatePolicies that they have no effect, when ``headgate up`` starts without GateOwnership.

Otherwise the status of an earlier start would still say that they are in effect.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, Final

from headgate.client import write_requests
from headgate.client.pager import ListRefused, ListResponse, list_all
from headgate.gate_policies.api import read_policy
from headgate.gate_policies.names import GATE_POLICIES
from headgate.gate_policies.status import status_without_feature
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.lenient_reader import find_object
from headgate.kube.serializer import wire_json

_decode_page: Final = wire_json.WireDecoder(ListResponse[dict[str, Any]])


def mark_ignored_policies() -> Generator[HTTPRequest, HTTPResponse, None]:
    """A failure is no reason not to start: nothing depends on these statuses."""
    listed = yield from list_all(GATE_POLICIES.collection_path(), _decode_page.decode)
    if isinstance(listed, ListRefused):
        return  # GatePolicy was never installed
    for wire in listed.items:
        policy, metadata = read_policy(wire), wire["metadata"]
        status = status_without_feature(policy, find_object(wire, "status"), time.time())
        if status is not None:
            uid = str(metadata.get("uid") or "")
            body = {"status": status}
            yield write_requests.patch(GATE_POLICIES, "", policy.name, uid, body, subresource="status")
