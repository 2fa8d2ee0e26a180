"""A kubeconfig file, read: which server, whom to trust, who we are.

Pure: text in, values out. File names inside it are returned as they stand (relative ones mean: beside the kubeconfig),
and ``client/http/shell.py`` opens them. What cannot be honoured (exec plugins, auth providers, passwords, proxies) is
refused with a sentence, never ignored: a client that silently drops a credential looks like a broken server.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec
import yaml

Object = dict[str, Any]


class Blob(msgspec.Struct, frozen=True):
    """Bytes that stand in the kubeconfig, or in a file that it names."""

    data: bytes = b""
    file: str = ""

    def __bool__(self) -> bool:
        return bool(self.data or self.file)


class Access(msgspec.Struct, frozen=True):
    """Everything needed to talk to one cluster as one user."""

    server: str
    namespace: str = "default"
    authority: Blob = Blob()
    insecure: bool = False
    tls_server_name: str = ""
    token: str = ""
    token_file: str = ""
    client_certificate: Blob = Blob()
    client_key: Blob = Blob()


_REFUSED_USER: Final = {
    "exec": "runs a program to log in (exec)",
    "auth-provider": "uses an auth provider",
    "username": "logs in by password",
    "as": "impersonates another user",
}


def read_access(text: str, context: str = "") -> Access | str:
    """What the named context (empty: the current one) gives; a string says what is wrong and how to mend it."""
    try:
        config = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        return f"kubeconfig is not YAML: {' '.join(str(error).split())}"
    if not isinstance(config, dict):
        return "kubeconfig is empty or not a mapping"
    chosen = context or config.get("current-context") or ""
    if not chosen:
        return "kubeconfig has no current-context: name one with --context"
    found = _named(config, "contexts", "context", chosen)
    if found is None:
        return f"kubeconfig has no context {chosen!r}; it has: {_names(config, 'contexts')}"
    cluster = _named(config, "clusters", "cluster", str(found.get("cluster", "")))
    if cluster is None:
        return f"context {chosen!r} names cluster {found.get('cluster')!r}, which the kubeconfig does not have"
    user = _named(config, "users", "user", str(found.get("user", ""))) if found.get("user") else {}
    if user is None:
        return f"context {chosen!r} names user {found.get('user')!r}, which the kubeconfig does not have"
    return _access(found, cluster, user)


def _access(context: Object, cluster: Object, user: Object) -> Access | str:
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("https://", "http://")):
        return f"the cluster's server {server!r} is not an http(s) address"
    if cluster.get("proxy-url"):
        return "the cluster is reached through a proxy-url, which is not supported"
    for key, words in _REFUSED_USER.items():
        if user.get(key):
            return f"the user {words}, which is not supported: use a token or a client certificate"
    blobs: list[Blob] = []
    for owner, key in ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")):
        blob = _blob(owner, key)
        if isinstance(blob, str):
            return blob
        blobs.append(blob)
    authority, certificate, key_blob = blobs
    if bool(certificate) != bool(key_blob):
        return "the user has a client certificate without its key, or a key without its certificate"
    return Access(
        server=server.rstrip("/"),
        namespace=str(context.get("namespace") or "default"),
        authority=authority,
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        token=str(user.get("token") or ""),
        token_file=str(user.get("tokenFile") or ""),
        client_certificate=certificate,
        client_key=key_blob,
    )


def _blob(owner: Object, key: str) -> Blob | str:
    """``X-data`` wins over ``X``, as in every client."""
    encoded = owner.get(f"{key}-data")
    if encoded:
        try:
            return Blob(data=base64.b64decode(str(encoded), validate=True))
        except (binascii.Error, ValueError):
            return f"{key}-data is not base64"
    return Blob(file=str(owner.get(key) or ""))


def _entries(config: Object, plural: str) -> list[Object]:
    listed = config.get(plural)
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _named(config: Object, plural: str, singular: str, name: str) -> Object | None:
    for entry in _entries(config, plural):
        if entry.get("name") == name:
            body = entry.get(singular)
            return body if isinstance(body, dict) else {}
    return None


def _names(config: Object, plural: str) -> str:
    return ", ".join(sorted(str(entry.get("name")) for entry in _entries(config, plural))) or "none"
