"""Finds credentials and keeps them up to date: it reads files when they change, and runs credential plugins when their
credential has expired.

``client/io/http_transport.py`` gets the current :class:`ClientIdentity` here before each request, and a new one after a
401. Files are checked once a second at most.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from headgate.client.credential_sources import MOUNT, in_cluster, kubeconfig_paths
from headgate.client.exec_plugin import ExecCredential, ExecPlugin, environment_of, read_exec_credential
from headgate.client.kubeconfig import InlineOrFile, KubeconfigFile, RESTConfig, read_sources
from headgate.http.transport import Unreachable

_CHECK_EVERY_S: Final = 1.0
_PLUGIN_TIMEOUT_S: Final = 60.0
_RENEWAL_PAUSE_S: Final = 1.0
"""After a plugin has returned the refused credential again, it is not run for this time, even if the API server refuses
more requests."""
_MAX_OUTPUT_BYTES: Final = 1 << 20
FileVersion = tuple[int, int, int] | None


class ClientIdentity(msgspec.Struct, frozen=True):
    """The current credentials, and the trusted CAs."""

    token: str = ""
    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""

    def same_tls(self, other: ClientIdentity) -> bool:
        return (self.authority, self.certificate, self.key) == (other.authority, other.certificate, other.key)


def find_rest_config(
    kubeconfig: str = "", context: str = "", environment: Mapping[str, str] | None = None, mount: str = MOUNT
) -> RESTConfig | str:
    """The configuration from a kubeconfig or from the pod's service account; a string says why there is none."""
    environment = os.environ if environment is None else environment
    paths = kubeconfig_paths(kubeconfig, environment)
    sources: list[KubeconfigFile] = []
    for path in paths:
        try:
            sources.append(KubeconfigFile(Path(path).read_text(), str(Path(path).resolve().parent), path))
        except (OSError, UnicodeDecodeError) as error:
            if kubeconfig or not isinstance(error, FileNotFoundError):
                reason = error.strerror if isinstance(error, OSError) else "it is not text"
                return f"the kubeconfig {path} cannot be read: {reason}; check --kubeconfig and KUBECONFIG"
    if sources:
        return read_sources(sources, context)
    namespace = Path(mount) / "namespace"
    found = in_cluster(environment, namespace.read_text() if namespace.exists() else "", mount)
    checked = f"none of {', '.join(paths)} exists" if paths else "none is named"
    return found or f"no kubeconfig: {checked}, and this process does not run in a pod; pass one with --kubeconfig"


class CredentialSource:
    """The identity for one ``RESTConfig``."""

    def __init__(self, config: RESTConfig) -> None:
        self._config = config
        self._files = [
            Path(name)
            for name in (
                config.token_file,
                config.authority.file,
                config.client_certificate.file,
                config.client_key.file,
            )
            if name
        ]
        self._file_versions: list[FileVersion] = []
        self._next_check_s = 0.0
        self._from_files: ClientIdentity | None = None
        self._plugin_credential: ExecCredential | None = None
        self._failed_renewal_s = float("-inf")
        self._lock = asyncio.Lock()
        self._identity: ClientIdentity | None = None
        # A token takes precedence over a plugin, as in client-go.
        self._plugin = None if config.token or config.token_file else config.plugin

    def cached(self) -> ClientIdentity | None:
        """The identity, or None if :meth:`fetch` must be called. It runs before every request, so it must be fast."""
        if self._identity is None or (self._files and time.monotonic() >= self._next_check_s):
            return None
        expires_s = self._plugin_credential.expires_s if self._plugin_credential is not None else None
        return self._identity if expires_s is None or time.time() < expires_s else None

    async def fetch(self) -> ClientIdentity:
        """The identity. Raises ``Unreachable`` if there is none."""
        async with self._lock:
            identity = self.cached()
            return identity if identity is not None else await self._refresh(force=False)

    async def renew(self, refused: ClientIdentity) -> bool:
        """The server refused this identity. Returns whether there is another one now."""
        async with self._lock:
            if self._identity == refused and time.monotonic() >= self._failed_renewal_s + _RENEWAL_PAUSE_S:
                await self._refresh(force=True)
                if self._identity == refused and self._plugin is not None:
                    self._failed_renewal_s = time.monotonic()
            return self._identity != refused

    async def _refresh(self, *, force: bool) -> ClientIdentity:
        self._read_files(force)
        assert self._from_files is not None
        credential = await self._fetch_plugin_credential(force) if self._plugin is not None else None
        self._identity = self._from_files
        if credential is not None:
            self._identity = msgspec.structs.replace(self._from_files, token=credential.token)
            if credential.certificate:
                self._identity = msgspec.structs.replace(
                    self._identity, certificate=credential.certificate, key=credential.key
                )
        return self._identity

    def _read_files(self, force: bool) -> None:
        self._next_check_s = time.monotonic() + _CHECK_EVERY_S
        versions = [_file_version(path) for path in self._files]
        if self._from_files is not None and versions == self._file_versions and not force:
            return
        try:
            self._from_files = self._read_all()
            self._file_versions = versions
        except OSError as error:
            if self._from_files is None:
                raise Unreachable(f"credentials cannot be read: {error}", sent=False) from error
            # During a rotation a file may be absent for a moment; the previous identity is kept.

    def _read_all(self) -> ClientIdentity:
        config = self._config
        return ClientIdentity(
            token=self._token(),
            authority=_bytes(config.authority),
            certificate=_bytes(config.client_certificate),
            key=_bytes(config.client_key),
        )

    def _token(self) -> str:
        if self._config.token_file:
            try:
                return Path(self._config.token_file).read_text().strip()
            except OSError:
                if not self._config.token:
                    raise
        return self._config.token

    async def _fetch_plugin_credential(self, force: bool) -> ExecCredential:
        assert self._plugin is not None
        credential = self._plugin_credential
        if (
            credential is not None
            and not force
            and (credential.expires_s is None or time.time() < credential.expires_s)
        ):
            return credential
        authority = self._from_files.authority if self._from_files is not None else b""
        self._plugin_credential = await run_plugin(self._plugin, base64.b64encode(authority).decode())
        return self._plugin_credential


async def run_plugin(plugin: ExecPlugin, authority: str = "") -> ExecCredential:
    """Raises ``Unreachable`` if the plugin cannot be run, fails, takes too long, or prints no credential."""
    try:
        async with asyncio.timeout(_PLUGIN_TIMEOUT_S):
            output = await _run(plugin, authority)
    except TimeoutError as error:
        raise Unreachable(f"{plugin.command} did not finish in {_PLUGIN_TIMEOUT_S:.0f} s", sent=False) from error
    credential = read_exec_credential(plugin, output)
    if isinstance(credential, str):
        raise Unreachable(credential, sent=False)
    return credential


async def _run(plugin: ExecPlugin, authority: str) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env=environment_of(plugin, os.environ, authority),
        )
    except OSError as error:
        hint = f" ({plugin.hint})" if plugin.hint else ""
        raise Unreachable(f"{plugin.command} cannot be run: {error}{hint}", sent=False) from error
    assert process.stdout is not None
    try:
        output = bytearray()
        while more := await process.stdout.read(_MAX_OUTPUT_BYTES):
            output += more
            if len(output) > _MAX_OUTPUT_BYTES:
                raise Unreachable(f"{plugin.command} printed more than {_MAX_OUTPUT_BYTES} bytes", sent=False)
        if await process.wait():
            raise Unreachable(f"{plugin.command} failed with exit code {process.returncode}", sent=False)
        return bytes(output)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def authority_of(config: RESTConfig) -> str:
    """The certificate authority (PEM) of the server; empty if there is none or its file cannot be read."""
    try:
        return _bytes(config.authority).decode()
    except (OSError, UnicodeDecodeError):
        return ""


def _bytes(blob: InlineOrFile) -> bytes:
    return Path(blob.file).read_bytes() if blob.file else blob.data


def _file_version(path: Path) -> FileVersion:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
