"""Every form of credentials, sent to both servers: as which user does the server authenticate the client?

Files are replaced while the client runs; the request is repeated until its response changes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from harness.certificate_authority import trusted
from harness.embedded_server import EmbeddedServer
from harness.real_server import RealServer
from harness.server import Server
from harness.users import ALICE, BOB, TOKEN
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import HTTPRequest, Unreachable

pytestmark = pytest.mark.real

Object = dict[str, Any]
Ask = Callable[[], Awaitable[str]]
REVIEW = HTTPRequest(
    "POST",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    "",
    {"content-type": "application/json"},
    b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}',
)
V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
PATIENCE_S = 20.0
PLUGIN = """\
import json, os, pathlib, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert info["spec"]["cluster"]["server"].startswith("https://127.0.0.1"), info
assert info["spec"]["cluster"]["certificate-authority-data"], info
status = json.loads(pathlib.Path(sys.argv[1]).read_text())
print(json.dumps({"kind": "ExecCredential", "apiVersion": info["apiVersion"], "status": status}))
"""


@pytest.fixture(params=["real", "embedded"])
def server(request: pytest.FixtureRequest) -> Server:
    found: RealServer | EmbeddedServer = request.getfixturevalue(f"{request.param}_server")
    return found


def access(server: Server, folder: Path, user: Object, cluster: Object | None = None) -> RESTConfig:
    """Through a kubeconfig in `folder`, as a user would have it."""
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url, **(cluster or _trust(server))}}],
        "users": [{"name": "u", "user": user}],
    }
    (folder / "config").write_text(yaml.safe_dump(config))
    found = find_rest_config(str(folder / "config"))
    assert isinstance(found, RESTConfig), found
    return found


def _trust(server: Server) -> Object:
    return {"certificate-authority": str(server.ca)}


def asking(found: RESTConfig, test: Callable[[Ask], Awaitable[None]]) -> None:
    async def run() -> None:
        transport = HTTPTransport(found)

        async def ask() -> str:
            response = await transport.request(REVIEW)
            if response.status != 201:
                return str(response.status)
            return str(msgspec.json.decode(response.body)["status"]["userInfo"]["username"])

        try:
            async with asyncio.timeout(PATIENCE_S):
                await test(ask)
        finally:
            await transport.close()

    asyncio.run(run())


def says(found: RESTConfig, name: str) -> None:
    async def test(ask: Ask) -> None:
        assert await ask() == name

    asking(found, test)


async def until(ask: Ask, name: str) -> None:
    while await ask() != name:
        await asyncio.sleep(0.1)


def pair(folder: Path, name: str) -> tuple[str, str]:
    """A certificate and its key, as text."""
    text = trusted().issue(folder / f"{name}.pem", name).read_text()
    at = text.index("-----BEGIN PRIVATE KEY")
    return text[:at], text[at:]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_token_in_the_kubeconfig(server: Server, tmp_path: Path) -> None:
    says(access(server, tmp_path, {"token": ALICE}), "alice")
    says(access(server, tmp_path, {"token": "unknown"}), "401")


def test_a_token_file_is_read_again_when_it_is_refused_and_when_it_changes(server: Server, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("unknown\n")

    async def test(ask: Ask) -> None:
        assert await ask() == "401"
        token.write_text(f"{ALICE}\n")
        assert await ask() == "alice"
        token.write_text(f"{BOB}\n")
        await until(ask, "bob")

    asking(access(server, tmp_path, {"tokenFile": "token"}), test)


def test_a_client_certificate_inline(server: Server, tmp_path: Path) -> None:
    certificate, key = pair(tmp_path, "carol")
    user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    says(access(server, tmp_path, user), "carol")


def test_a_client_certificate_in_files_is_rotated_under_a_running_client(server: Server, tmp_path: Path) -> None:
    certificate, key = pair(tmp_path, "carol")
    (tmp_path / "me.crt").write_text(certificate)
    (tmp_path / "me.key").write_text(key)

    async def test(ask: Ask) -> None:
        assert await ask() == "carol"
        certificate, key = pair(tmp_path, "dave")
        (tmp_path / "me.crt").write_text(certificate)
        (tmp_path / "me.key").write_text(key)
        await until(ask, "dave")

    asking(access(server, tmp_path, {"client-certificate": "me.crt", "client-key": "me.key"}), test)


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_a_plugin_gives_a_token_until_it_expires_or_is_refused_and_then_another(
    server: Server, tmp_path: Path, version: str
) -> None:
    status = tmp_path / "status.json"
    status.write_text(json.dumps({"token": "unknown"}))

    async def test(ask: Ask) -> None:
        assert await ask() == "401"
        status.write_text(json.dumps({"token": ALICE, "expirationTimestamp": "2020-01-01T00:00:00Z"}))
        await until(ask, "alice")
        status.write_text(json.dumps({"token": BOB}))
        assert await ask() == "bob"  # the other one had expired
        status.write_text(json.dumps({"token": TOKEN}))
        assert await ask() == "bob"  # this one has not

    asking(access(server, tmp_path, {"exec": _program(tmp_path, status, version)}), test)


def test_a_plugin_gives_a_client_certificate(server: Server, tmp_path: Path) -> None:
    certificate, key = pair(tmp_path, "erin")
    status = tmp_path / "status.json"
    status.write_text(json.dumps({"clientCertificateData": certificate, "clientKeyData": key}))
    says(access(server, tmp_path, {"exec": _program(tmp_path, status, V1)}), "erin")


def _program(folder: Path, status: Path, version: str) -> Object:
    (folder / "login.py").write_text(PLUGIN)
    return {
        "apiVersion": version,
        "command": sys.executable,
        "args": [str(folder / "login.py"), str(status)],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }


def test_the_service_account_of_a_pod(server: Server, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(server.ca.read_bytes())
    (tmp_path / "token").write_text(BOB)
    host, _, port = server.address.partition(":")
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    found = find_rest_config(environment=environment, mount=str(tmp_path))
    assert isinstance(found, RESTConfig)
    says(found, "bob")


def test_a_server_is_trusted_by_its_authority_and_name_or_not_at_all(server: Server, tmp_path: Path) -> None:
    async def refused(ask: Ask) -> None:
        with pytest.raises(Unreachable, match="certificate") as caught:
            await ask()
        assert not caught.value.sent

    user = {"token": ALICE}
    asking(access(server, tmp_path, user, {"certificate-authority-data": encoded(trusted().pem.decode())}), refused)
    asking(access(server, tmp_path, user, {**_trust(server), "tls-server-name": "wrong.example"}), refused)
    says(access(server, tmp_path, user, {**_trust(server), "tls-server-name": "kubernetes.default.svc"}), "alice")
    says(access(server, tmp_path, user, {"insecure-skip-tls-verify": True}), "alice")
