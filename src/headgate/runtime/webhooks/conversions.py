"""The conversion webhook in the definitions of ``kueue.x-k8s.io``, and which definitions need none.

Pure except for ``converts_in_process``. Only definitions that Headgate installed are changed, not Kueue's own.
Once a webhook converts, v1beta1 is served. ``registrar.py`` writes the definitions.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from headgate.client import write_requests
from headgate.http.transport import HTTPRequest, Transport
from headgate.kube.serializer import wire_json
from headgate.quota.kinds.definitions import HEADGATE, MANAGED_BY, definitions, is_ours, serving_all_versions
from headgate.runtime.webhooks.target import WebhookTarget

Object = dict[str, Any]

PATH: Final = "/kueue/convert"
NAMES: Final = tuple(each["metadata"]["name"] for each in definitions(with_older=False))
"""The definitions to check."""
SELECTOR: Final = f"{MANAGED_BY}={HEADGATE}"
_OUR_SERVER: Final = "+headgate."
"""The suffix in the version of the embedded server (``apiserver/discovery/documents.py``)."""


def with_conversion(found: Object, target: WebhookTarget, ca_bundle: bytes) -> Object | None:
    """The definition with the conversion webhook; None if it is up to date or was not installed by Headgate."""
    if not is_ours(found):
        return None
    client = target.client_config(PATH, base64.b64encode(ca_bundle).decode())
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    wanted = serving_all_versions(
        {**found, "spec": {**found["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}}
    )
    return None if wanted == found else wanted


async def converts_in_process(transport: Transport) -> bool:
    """Whether the server is Headgate's embedded one, which converts without a webhook (``cli/embedded/server.py``)."""
    response = await transport.request(HTTPRequest("GET", "/version", "", write_requests.ACCEPT))
    return response.ok and _OUR_SERVER in str(
        wire_json.WireDecoder(dict[str, Any]).decode(response.body).get("gitVersion")
    )
