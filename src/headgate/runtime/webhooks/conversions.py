"""The conversion webhook in the CustomResourceDefinitions of ``kueue.x-k8s.io``.

Pure. Only definitions that Headgate installed are changed, not Kueue's own. A
definition with the webhook also serves v1beta1. ``registrar.py`` writes the definitions.
"""

from __future__ import annotations

import base64
from typing import Any, Final
from urllib.parse import urlsplit

from headgate.kube.crd_builder import DEFINITION, is_installed_by_headgate
from headgate.kube.lenient_reader import find_object, find_text
from headgate.quota.kinds.definitions import definitions, serving_all_versions
from headgate.runtime.webhooks.target import WebhookTarget

Object = dict[str, Any]

PATH: Final = "/kueue/convert"
NAMES: Final = tuple(each["metadata"]["name"] for each in definitions(with_older=False))
"""The names of the definitions that may get the webhook."""
SELECTOR: Final = f"{DEFINITION}=true"


def with_conversion(
    found: Object, target: WebhookTarget, ca_bundle: bytes, *, is_starting: bool = True
) -> Object | None:
    """The definition with the conversion webhook; None if it is up to date or was not installed by Headgate, or if a
    replica with another address has written its webhook since this one started (``is_starting``)."""
    if not is_installed_by_headgate(found):
        return None
    client = target.client_config(PATH, base64.b64encode(ca_bundle).decode())
    if not is_starting and _is_of_other_replica(_client_config(found), client):
        return None
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    wanted = serving_all_versions(
        {**found, "spec": {**found["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}}
    )
    return None if wanted == found else wanted


def _client_config(definition: Object) -> Object:
    return find_object(definition, "spec", "conversion", "webhook", "clientConfig")


def _is_of_other_replica(found: Object, own: Object) -> bool:
    """Whether the webhook is one of Headgate's, by its path, at another address."""
    path = find_text(found, "service", "path") or urlsplit(find_text(found, "url")).path
    return path.endswith(PATH) and {**found, "caBundle": ""} != {**own, "caBundle": ""}
