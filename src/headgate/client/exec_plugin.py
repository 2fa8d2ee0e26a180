"""Credential plugins (client.authentication.k8s.io): the command, its input and its output.

Pure; ``client/io/credentials.py`` runs the command. Versions v1 and v1beta1 are supported; a plugin that needs user
input (``interactiveMode: Always``) is refused, because a controller has no terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.kube.serializer import wire_json
from headgate.kube.timestamps import parse_time

Object = dict[str, Any]

INFO: Final = "KUBERNETES_EXEC_INFO"
_GROUP: Final = "client.authentication.k8s.io"
_VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_EXTENSION: Final = f"{_GROUP}/exec"
_MODES: Final = ("Never", "IfAvailable", "Always")
_CLUSTER_FIELDS: Final = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "disable-compression",
)


class ExecPlugin(msgspec.Struct, frozen=True):
    """A command to run. ``cluster`` is the cluster information that it gets, if its configuration asks for it."""

    version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    hint: str = ""
    cluster: Object | None = None


class ExecCredential(msgspec.Struct, frozen=True):
    """The output of a plugin. ``expires_s``: seconds since 1970; None if it is valid until the API server refuses
    it."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    expires_s: float | None = None


def read_plugin(program: Any, cluster: Object) -> ExecPlugin | str:
    """Parses the ``exec`` of a user; returns a string if it is invalid."""
    if not isinstance(program, dict) or not program.get("command"):
        return "the user's exec has no command"
    version, mode = program.get("apiVersion"), program.get("interactiveMode") or "IfAvailable"
    if version not in _VERSIONS:
        return f"the user's exec.apiVersion {version!r} is not supported: {' or '.join(_VERSIONS)}"
    if mode not in _MODES:
        return f"the user's exec.interactiveMode {mode!r} is none of {', '.join(_MODES)}"
    if mode == "Always":
        return "the user's exec.interactiveMode is Always, which is not supported: there is no terminal for the program"
    environment = program.get("env") or ()
    if not all(isinstance(each, dict) and each.get("name") for each in environment):
        return "the user's exec.env has an entry without a name"
    return ExecPlugin(
        version=version,
        command=str(program["command"]),
        arguments=tuple(map(str, program.get("args") or ())),
        environment=tuple((str(each["name"]), str(each.get("value", ""))) for each in environment),
        hint=str(program.get("installHint") or ""),
        cluster=_cluster_info(cluster) if program.get("provideClusterInfo") else None,
    )


def _cluster_info(cluster: Object) -> Object:
    info = {key: cluster[key] for key in _CLUSTER_FIELDS if cluster.get(key)}
    for extension in cluster.get("extensions") or ():
        if isinstance(extension, dict) and extension.get("name") == _EXTENSION:
            info["config"] = extension.get("extension")
    return info


def environment_of(plugin: ExecPlugin, inherited: Mapping[str, str], authority: str = "") -> dict[str, str]:
    """The program's environment. ``authority``: the base64 of a certificate authority that was read from a file."""
    spec: Object = {"interactive": False}
    if plugin.cluster is not None:
        found = {"certificate-authority-data": authority} if authority else {}
        spec["cluster"] = {**plugin.cluster, **found}
    info = {"kind": "ExecCredential", "apiVersion": plugin.version, "spec": spec}
    return {**inherited, **dict(plugin.environment), INFO: msgspec.json.encode(info).decode()}


def read_exec_credential(plugin: ExecPlugin, output: bytes) -> ExecCredential | str:
    """Parses the output of the program; returns a string if it is invalid."""
    try:
        printed = wire_json.decode(output)
    except msgspec.DecodeError as error:
        return f"{plugin.command} printed invalid JSON: {error}"
    if not isinstance(printed, dict) or printed.get("kind") != "ExecCredential":
        return f"{plugin.command} printed no ExecCredential"
    if printed.get("apiVersion") != plugin.version:
        return f"{plugin.command} was asked for {plugin.version} and printed {printed.get('apiVersion')!r}"
    status = printed.get("status")
    if not isinstance(status, dict):
        return f"{plugin.command} printed an ExecCredential without a status"
    token, certificate, key = (
        str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if not (token or certificate or key):
        return f"{plugin.command} printed neither a token nor a client certificate"
    if bool(certificate) != bool(key):
        return f"{plugin.command} printed a certificate without its key, or a key without its certificate"
    expiration = status.get("expirationTimestamp")
    expires_s = parse_time(str(expiration)) if expiration else None
    if isinstance(expires_s, str):
        return f"{plugin.command} printed an expirationTimestamp that is no time: {expires_s}"
    return ExecCredential(token, certificate.encode(), key.encode(), expires_s)
