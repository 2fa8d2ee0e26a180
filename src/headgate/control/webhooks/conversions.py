"""How API servers are told to ask us for another version of an object of ``kueue.x-k8s.io``; who needs no telling.

Pure but for one question. Only definitions that Headgate brought are touched: Kueue's own name their own webhook. Once
somebody converts, v1beta1 is served. Who writes it is ``keeper.py``.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from headgate.client import writes
from headgate.client.transport import Request, Transport
from headgate.control.webhooks.target import Target
from headgate.kube import wire_json
from headgate.quota.kinds.definitions import HEADGATE, MANAGED_BY, definitions, is_ours, serving_both

Object = dict[str, Any]

PATH: Final = "/kueue/convert"
NAMES: Final = tuple(each["metadata"]["name"] for each in definitions(both=False))
"""The definitions to look at."""
SELECTOR: Final = f"{MANAGED_BY}={HEADGATE}"
_OUR_SERVER: Final = "+headgate."
"""What the version of the embedded server has after Kubernetes' (``apiserver/discovery.py``)."""


def told(found: Object, target: Target, ca_bundle: bytes) -> Object | None:
    """The definition as it should be; None if it is, or is nobody's business here."""
    if not is_ours(found):
        return None
    client = target.client_config(PATH, base64.b64encode(ca_bundle).decode())
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    wanted = serving_both(
        {**found, "spec": {**found["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}}
    )
    return None if wanted == found else wanted


async def converts_itself(transport: Transport) -> bool:
    """Whether the server is ours: it has the conversion within (``cli/server.py``)."""
    answer = await transport.request(Request("GET", "/version", "", writes.ACCEPT))
    return answer.ok and _OUR_SERVER in str(wire_json.Decoder(dict[str, Any]).decode(answer.body).get("gitVersion"))
