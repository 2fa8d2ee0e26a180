"""The address at which an API server reaches the webhooks: a URL or a Service. Parsed from command-line options."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from headgate.kube.names import is_dns1123_label

Object = dict[str, Any]

_HTTPS: Final = 443
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class WebhookTarget(msgspec.Struct, frozen=True):
    """Either ``url``, without a slash at its end, or a Service."""

    url: str = ""
    namespace: str = ""
    service: str = ""
    port: int = _HTTPS

    @property
    def name(self) -> str:
        """The host name that the API server uses, and that the certificate must contain."""
        return (urlsplit(self.url).hostname or "") if self.url else f"{self.service}.{self.namespace}.svc"

    @property
    def names(self) -> tuple[str, ...]:
        """All names that the certificate has."""
        cluster_names = () if self.url else (f"{self.name}.cluster.local",)
        return tuple(dict.fromkeys((self.name, *cluster_names, *_LOCAL)))

    def client_config(self, path: str, ca_bundle: str) -> Object:
        """The ``clientConfig`` of a webhook, including default values."""
        if self.url:
            return {"url": self.url + path, "caBundle": ca_bundle}
        service = {"namespace": self.namespace, "name": self.service, "path": path, "port": self.port}
        return {"service": service, "caBundle": ca_bundle}


def parse_url(text: str) -> WebhookTarget | str:
    """Parses ``https://host:port``; returns a message if it is invalid."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        return f"--webhook-url {text!r}: {problem}"
    if parts.scheme != "https" or not host:
        return f"--webhook-url {text!r} is not https://HOST:PORT: API servers call webhooks over TLS only"
    if parts.query or parts.fragment or parts.username is not None:
        return f"--webhook-url {text!r} may have a path, and neither a user, a query nor a fragment"
    return WebhookTarget(url=text.rstrip("/"))


def parse_service(text: str) -> WebhookTarget | str:
    """Parses ``NAMESPACE/NAME`` or ``NAMESPACE/NAME:PORT``; returns a message if it is invalid."""
    namespace, slash, rest = text.partition("/")
    name, colon, port = rest.partition(":")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0
    is_named = not is_dns1123_label(namespace) and not is_dns1123_label(name)
    if not slash or not is_named or (colon and not 0 < number < 65536):
        return f"--webhook-service {text!r} is not NAMESPACE/NAME or NAMESPACE/NAME:PORT"
    return WebhookTarget(namespace=namespace, service=name, port=number if colon else _HTTPS)
