"""Parses kubeconfig files: the server, its CA, and the user's credentials.

Pure: it gets texts and returns values. Several files are merged into one configuration (``merge``), as in kubectl: of
two entries with one name the whole first entry counts. Paths in a file are relative to it. ``client/io/credentials.py``
opens the files and runs the plugins that a ``RESTConfig`` names. Settings that are not supported (auth providers,
passwords, proxies, impersonation) are refused with an error that names the field. If they were ignored, the API server
would refuse requests for no visible reason.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.client.exec_plugin import ExecPlugin, read_plugin
from headgate.kube.serializer.yaml_decoder import decode_yaml

Object = dict[str, Any]

_LISTS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}
_FILE_FIELDS: Final = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
_UNSUPPORTED: Final = {
    "proxy-url": "the cluster is reached through a proxy (proxy-url)",
    "auth-provider": "the user logs in by an auth provider (auth-provider)",
    "username": "the user logs in by password (username)",
    "password": "the user logs in by password (password)",
    "as": "the user impersonates another one (as)",
    "as-uid": "the user impersonates another one (as-uid)",
    "as-groups": "the user impersonates groups (as-groups)",
    "as-user-extra": "the user impersonates another one (as-user-extra)",
}


class KubeconfigFile(msgspec.Struct, frozen=True):
    """A kubeconfig file: its text, its folder, and what to call it in messages."""

    text: str
    folder: str = ""
    name: str = "kubeconfig"


class InlineOrFile(msgspec.Struct, frozen=True):
    """Bytes in the kubeconfig, or the path of a file that has them."""

    data: bytes = b""
    file: str = ""

    def __bool__(self) -> bool:
        return bool(self.data or self.file)


class RESTConfig(msgspec.Struct, frozen=True):
    """Everything needed to talk to one cluster as one user."""

    server: str
    namespace: str = "default"
    authority: InlineOrFile = InlineOrFile()
    insecure: bool = False
    tls_server_name: str = ""
    token: str = ""
    token_file: str = ""
    client_certificate: InlineOrFile = InlineOrFile()
    client_key: InlineOrFile = InlineOrFile()
    plugin: ExecPlugin | None = None


def read_rest_config(text: str, context: str = "", folder: str = "") -> RESTConfig | str:
    """The configuration of a context of one file (empty: the current one); a string if it is invalid."""
    return read_sources([KubeconfigFile(text, folder)], context)


def read_sources(sources: Iterable[KubeconfigFile], context: str = "") -> RESTConfig | str:
    """The configuration of a context of the merged files; a string says what is wrong and how to fix it."""
    config = merge(sources)
    return config if isinstance(config, str) else _select_context(config, context)


def merge(sources: Iterable[KubeconfigFile]) -> Object | str:
    """One configuration: of each name the first entry, the first current-context, and whole paths for file names."""
    merged: Object = {"current-context": "", **{plural: {} for plural in _LISTS}}
    for source in sources:
        config = _parse(source)
        if isinstance(config, str):
            return config
        merged["current-context"] = merged["current-context"] or str(config.get("current-context") or "")
        for plural, singular in _LISTS.items():
            for name, entry in _entries(config, plural, singular):
                merged[plural].setdefault(name, _with_absolute_paths(plural, entry, source.folder))
    return merged


def _parse(source: KubeconfigFile) -> Object | str:
    # Not yaml.load, which overflows the stack of the process at about ten thousand levels.
    parsed = decode_yaml(source.text.encode("utf-8", "surrogatepass"))
    if parsed.error is not None:
        return f"{source.name} is not YAML: {' '.join(parsed.error.split())}"
    config = parsed.value
    if config is None:
        return {}
    return config if isinstance(config, dict) else f"{source.name} is not a mapping"


def _entries(config: Object, plural: str, singular: str) -> Iterable[tuple[str, Object]]:
    listed = config.get(plural)
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict):
            body = entry.get(singular)
            yield str(entry.get("name") or ""), body if isinstance(body, dict) else {}


def _with_absolute_paths(plural: str, entry: Object, folder: str) -> Object:
    """The entry with file names relative to the folder of the kubeconfig."""
    if not folder:
        return entry
    found: Object = {
        key: posixpath.join(folder, str(entry[key])) for key in _FILE_FIELDS.get(plural, ()) if entry.get(key)
    }
    program = entry.get("exec")
    if plural == "users" and isinstance(program, dict) and "/" in str(program.get("command") or ""):
        # A bare name is searched in PATH, as in client-go.
        found["exec"] = {**program, "command": posixpath.join(folder, program["command"])}
    return {**entry, **found}


def _select_context(config: Object, context: str) -> RESTConfig | str:
    chosen = context or config["current-context"]
    if not chosen:
        return "kubeconfig is empty or has no current-context: name one with --context"
    found = config["contexts"].get(chosen)
    if found is None:
        names = ", ".join(sorted(config["contexts"])) or "none"
        return f"kubeconfig has no context {chosen!r}; it has: {names}"
    cluster = config["clusters"].get(str(found.get("cluster", "")))
    if cluster is None:
        return f"context {chosen!r} names cluster {found.get('cluster')!r}, which the kubeconfig does not have"
    user = config["users"].get(str(found.get("user", ""))) if found.get("user") else {}
    if user is None:
        return f"context {chosen!r} names user {found.get('user')!r}, which the kubeconfig does not have"
    return _rest_config(found, cluster, user)


def _rest_config(context: Object, cluster: Object, user: Object) -> RESTConfig | str:
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("https://", "http://")):
        return f"the cluster's server {server!r} is not an http(s) address"
    for field, problem in _UNSUPPORTED.items():
        if cluster.get(field) or user.get(field):
            return f"{problem}, which is not supported: use a token, a client certificate or an exec plugin"
    blobs: list[InlineOrFile] = []
    for owner, key in ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")):
        blob = _blob(owner, key)
        if isinstance(blob, str):
            return blob
        blobs.append(blob)
    authority, certificate, key_blob = blobs
    if bool(certificate) != bool(key_blob):
        return "the user has a client certificate without its key, or a key without its certificate"
    if cluster.get("insecure-skip-tls-verify") and authority:
        return "the cluster names a certificate-authority and insecure-skip-tls-verify: only one of them can be meant"
    plugin = read_plugin(user["exec"], cluster) if user.get("exec") else None
    if isinstance(plugin, str):
        return plugin
    return RESTConfig(
        server=server.rstrip("/"),
        namespace=str(context.get("namespace") or "default"),
        authority=authority,
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        token=str(user.get("token") or ""),
        token_file=str(user.get("tokenFile") or ""),
        client_certificate=certificate,
        client_key=key_blob,
        plugin=plugin,
    )


def _blob(entry: Object, key: str) -> InlineOrFile | str:
    """``X-data`` takes precedence over ``X``, as in client-go."""
    encoded = entry.get(f"{key}-data")
    if encoded:
        try:
            return InlineOrFile(data=base64.b64decode(str(encoded), validate=True))
        except (binascii.Error, ValueError):
            return f"{key}-data is not base64"
    return InlineOrFile(file=str(entry.get(key) or ""))
