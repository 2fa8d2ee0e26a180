"""Finds credentials and keeps them fresh: reads files when they change, runs plugins when their credential has expired.

Nothing here calls an API server; ``client/io/http_transport.py`` asks for the current identity before each request, and
for a new one after a 401. Files are checked once a second at most.
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

_LOOK_EVERY_S: Final = 1.0
_PLUGIN_S: Final = 60.0
_FRUITLESS_S: Final = 1.0
"""A program that printed again what the server had just refused is not run for every request that is refused next."""
_PRINTED_BYTES: Final = 1 << 20
Stamp = tuple[int, int, int] | None


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
    """The server to talk to and how, from a kubeconfig or from the pod around us; a string says why there is none."""
    environment = os.environ if environment is None else environment
    paths = kubeconfig_paths(kubeconfig, environment)
    sources: list[KubeconfigFile] = []
    for path in paths:
        try:
            sources.append(KubeconfigFile(Path(path).read_text(), str(Path(path).resolve().parent), path))
        except (OSError, UnicodeDecodeError) as error:
            if kubeconfig or not isinstance(error, FileNotFoundError):
                why = error.strerror if isinstance(error, OSError) else "it is not text"
                return f"the kubeconfig {path} cannot be read: {why}; check --kubeconfig and KUBECONFIG"
    if sources:
        return read_sources(sources, context)
    namespace = Path(mount) / "namespace"
    found = in_cluster(environment, namespace.read_text() if namespace.exists() else "", mount)
    looked = f"none of {', '.join(paths)} exists" if paths else "none is named"
    return found or f"no kubeconfig: {looked}, and this is no pod of a cluster; name one with --kubeconfig"


class CredentialSource:
    """The identity of one ``Access``."""

    def __init__(self, access: RESTConfig) -> None:
        self._access = access
        self._files = [
            Path(name)
            for name in (
                access.token_file,
                access.authority.file,
                access.client_certificate.file,
                access.client_key.file,
            )
            if name
        ]
        self._stamps: list[Stamp] = []
        self._look_s = 0.0
        self._from_files: ClientIdentity | None = None
        self._printed: ExecCredential | None = None
        self._fruitless_s = float("-inf")
        self._asking = asyncio.Lock()
        self._identity: ClientIdentity | None = None
        # A token of one's own wins over a plugin, as in every client.
        self._plugin = None if access.token or access.token_file else access.plugin

    def at_hand(self) -> ClientIdentity | None:
        """The identity, unless it must be fetched. Cheap: it is asked before every request."""
        if self._identity is None or (self._files and time.monotonic() >= self._look_s):
            return None
        expires_s = self._printed.expires_s if self._printed is not None else None
        return self._identity if expires_s is None or time.time() < expires_s else None

    async def fetch(self) -> ClientIdentity:
        """The identity. Raises ``Unreachable`` when there is none to be had."""
        async with self._asking:
            identity = self.at_hand()
            return identity if identity is not None else await self._gather(force=False)

    async def renew(self, refused: ClientIdentity) -> bool:
        """The server does not know this identity; whether there is another one by now."""
        async with self._asking:
            if self._identity == refused and time.monotonic() >= self._fruitless_s + _FRUITLESS_S:
                await self._gather(force=True)
                if self._identity == refused and self._plugin is not None:
                    self._fruitless_s = time.monotonic()
            return self._identity != refused

    async def _gather(self, *, force: bool) -> ClientIdentity:
        self._read_files(force)
        assert self._from_files is not None
        printed = await self._print(force) if self._plugin is not None else None
        self._identity = self._from_files
        if printed is not None:
            self._identity = msgspec.structs.replace(self._from_files, token=printed.token)
            if printed.certificate:
                self._identity = msgspec.structs.replace(
                    self._identity, certificate=printed.certificate, key=printed.key
                )
        return self._identity

    def _read_files(self, force: bool) -> None:
        self._look_s = time.monotonic() + _LOOK_EVERY_S
        stamps = [_stamp(path) for path in self._files]
        if self._from_files is not None and stamps == self._stamps and not force:
            return
        try:
            self._from_files = self._read_all()
            self._stamps = stamps
        except OSError as error:
            if self._from_files is None:
                raise Unreachable(f"credentials cannot be read: {error}", sent=False) from error
            # In the middle of a rotation a file may be absent for a moment: what we have is better than nothing.

    def _read_all(self) -> ClientIdentity:
        access = self._access
        return ClientIdentity(
            token=self._token(),
            authority=_bytes(access.authority),
            certificate=_bytes(access.client_certificate),
            key=_bytes(access.client_key),
        )

    def _token(self) -> str:
        if self._access.token_file:
            try:
                return Path(self._access.token_file).read_text().strip()
            except OSError:
                if not self._access.token:
                    raise
        return self._access.token

    async def _print(self, force: bool) -> ExecCredential:
        assert self._plugin is not None
        known = self._printed
        if known is not None and not force and (known.expires_s is None or time.time() < known.expires_s):
            return known
        authority = self._from_files.authority if self._from_files is not None else b""
        self._printed = await run_plugin(self._plugin, base64.b64encode(authority).decode())
        return self._printed


async def run_plugin(plugin: ExecPlugin, authority: str = "") -> ExecCredential:
    """Raises ``Unreachable`` when it cannot be run, fails, takes too long, or prints no credential."""
    try:
        async with asyncio.timeout(_PLUGIN_S):
            output = await _run(plugin, authority)
    except TimeoutError as error:
        raise Unreachable(f"{plugin.command} did not finish in {_PLUGIN_S:.0f} s", sent=False) from error
    printed = read_exec_credential(plugin, output)
    if isinstance(printed, str):
        raise Unreachable(printed, sent=False)
    return printed


async def _run(plugin: ExecPlugin, authority: str) -> bytes:
    try:
        child = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env=environment_of(plugin, os.environ, authority),
        )
    except OSError as error:
        hint = f" ({plugin.hint})" if plugin.hint else ""
        raise Unreachable(f"{plugin.command} cannot be run: {error}{hint}", sent=False) from error
    assert child.stdout is not None
    try:
        output = bytearray()
        while more := await child.stdout.read(_PRINTED_BYTES):
            output += more
            if len(output) > _PRINTED_BYTES:
                raise Unreachable(f"{plugin.command} printed more than {_PRINTED_BYTES} bytes", sent=False)
        if await child.wait():
            raise Unreachable(f"{plugin.command} failed with exit code {child.returncode}", sent=False)
        return bytes(output)
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


def authority_of(access: RESTConfig) -> str:
    """The certificate (PEM) of the authority that the server is checked by; empty where there is none, or no file."""
    try:
        return _bytes(access.authority).decode()
    except (OSError, UnicodeDecodeError):
        return ""


def _bytes(blob: InlineOrFile) -> bytes:
    return Path(blob.file).read_bytes() if blob.file else blob.data


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
