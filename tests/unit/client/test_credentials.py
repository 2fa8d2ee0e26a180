"""The sources of credentials, and when they are fetched again."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from headgate.client.credential_sources import in_cluster, kubeconfig_paths
from headgate.client.exec_plugin import INFO, ExecCredential, ExecPlugin, environment_of, read_exec_credential
from headgate.client.io.credentials import ClientIdentity, CredentialSource, find_rest_config, run_plugin
from headgate.client.kubeconfig import InlineOrFile, RESTConfig
from headgate.http.transport import Unreachable

V1 = "client.authentication.k8s.io/v1"
PLUGIN = ExecPlugin(version=V1, command="login")
SCRIPT = f"""\
import json, os, pathlib, sys
counter = pathlib.Path(sys.argv[1])
count = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(count))
info = json.loads(os.environ["{INFO}"])
status = {{"token": f"token-{{count}}-{{info['spec']['interactive']}}", **json.loads(sys.argv[2])}}
print(json.dumps({{"kind": "ExecCredential", "apiVersion": info["apiVersion"], "status": status}}))
"""


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


def touch_later(path: Path, text: str) -> None:
    """Written anew, with a stamp that differs even on a coarse clock."""
    path.write_text(text)
    stamp = path.stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(stamp, stamp))


# -- where they are ------------------------------------------------------------------------------------------------


def test_a_named_kubeconfig_wins_over_the_environment_and_that_over_the_home_folder() -> None:
    environment = {"KUBECONFIG": "/a::/b:/a", "HOME": "/home/me"}
    assert kubeconfig_paths("/named", environment) == ["/named"]
    assert kubeconfig_paths("", environment) == ["/a", "/b"]
    assert kubeconfig_paths("", {"HOME": "/home/me"}) == ["/home/me/.kube/config"]
    assert kubeconfig_paths("", {}) == []


def test_in_a_pod_the_service_account_is_used() -> None:
    assert in_cluster({}) is None
    assert in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}, "team\n", "/m") == (
        RESTConfig(
            server="https://[fd00::1]:443",
            namespace="team",
            authority=InlineOrFile(file="/m/ca.crt"),
            token_file="/m/token",
        )
    )


def test_files_of_the_list_that_are_absent_are_passed_over_but_not_a_named_one(tmp_path: Path) -> None:
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://c", "certificate-authority": "ca.crt"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    listed = {"KUBECONFIG": f"{tmp_path / 'absent'}:{tmp_path / 'config'}"}
    found = find_rest_config(environment=listed)
    assert isinstance(found, RESTConfig)
    assert found.authority == InlineOrFile(file=str(tmp_path / "ca.crt"))
    assert "cannot be read" in str(find_rest_config(str(tmp_path / "absent"), environment=listed))
    assert "no kubeconfig: none of" in str(find_rest_config(environment={"HOME": str(tmp_path)}))


def test_without_any_kubeconfig_the_pod_is_asked(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("team")
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    found = find_rest_config(environment=environment, mount=str(tmp_path))
    assert isinstance(found, RESTConfig)
    assert (found.server, found.namespace, found.token_file) == (
        "https://10.0.0.1:443",
        "team",
        str(tmp_path / "token"),
    )


# -- what a program printed ----------------------------------------------------------------------------------------


def printed(**status: str) -> bytes:
    return json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": status}).encode()


def test_a_program_gives_a_token_or_a_certificate_and_says_until_when() -> None:
    assert read_exec_credential(
        PLUGIN, printed(token="t", expirationTimestamp="2026-01-01T00:00:10Z")
    ) == ExecCredential(token="t", expires_s=1767225610)
    assert read_exec_credential(PLUGIN, printed(clientCertificateData="C", clientKeyData="K")) == ExecCredential(
        certificate=b"C", key=b"K"
    )


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (b"", "invalid JSON"),
        (b"{}", "no ExecCredential"),
        (printed().replace(b"/v1", b"/v1beta1"), "was asked for client.authentication.k8s.io/v1 and printed"),
        (printed().replace(b"status", b"spec"), "without a status"),
        (printed(), "neither a token nor"),
        (printed(clientKeyData="K"), "a key without its certificate"),
        (printed(token="t", expirationTimestamp="soon"), "no time"),
    ],
)
def test_what_is_no_credential_is_refused_in_words(output: bytes, words: str) -> None:
    refusal = read_exec_credential(PLUGIN, output)
    assert isinstance(refusal, str)
    assert words in refusal


def test_an_exec_plugin_gets_only_the_cluster_information_that_it_asks_for() -> None:
    told = environment_of(ExecPlugin(version=V1, command="x", environment=(("A", "2"),)), {"A": "1", "B": "1"})
    assert (told["A"], told["B"]) == ("2", "1")
    assert json.loads(told[INFO])["spec"] == {"interactive": False}
    told = environment_of(ExecPlugin(version=V1, command="x", cluster={"server": "s"}), {}, "Q0E=")
    assert json.loads(told[INFO])["spec"]["cluster"] == {"server": "s", "certificate-authority-data": "Q0E="}


# -- kept fresh ----------------------------------------------------------------------------------------------------


def scripted(folder: Path, **status: str) -> ExecPlugin:
    (folder / "login.py").write_text(SCRIPT)
    arguments = (str(folder / "login.py"), str(folder / "count"), json.dumps(status))
    return ExecPlugin(version=V1, command=sys.executable, arguments=arguments)


def test_a_program_runs_once_for_all_until_it_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        credentials = CredentialSource(RESTConfig(server="https://c", plugin=scripted(tmp_path)))
        assert credentials.cached() is None
        identities = await asyncio.gather(*(credentials.fetch() for _ in range(5)))
        assert {each.token for each in identities} == {"token-1-False"}
        assert credentials.cached() == identities[0]
        renewed = await asyncio.gather(*(credentials.renew(identities[0]) for _ in range(5)))
        assert renewed == [True] * 5
        assert (await credentials.fetch()).token == "token-2-False"

    run(test())


def test_an_exec_plugin_that_returns_the_same_credentials_is_not_run_for_every_refusal(tmp_path: Path) -> None:
    async def test() -> None:
        plugin = scripted(tmp_path, token="the same")
        credentials = CredentialSource(RESTConfig(server="https://c", plugin=plugin))
        identity = await credentials.fetch()
        assert [await credentials.renew(identity) for _ in range(5)] == [False] * 5
        assert (tmp_path / "count").read_text() == "2"

    run(test())


def test_expired_credentials_are_fetched_again(tmp_path: Path) -> None:
    async def test() -> None:
        plugin = scripted(tmp_path, expirationTimestamp="2020-01-01T00:00:00Z")
        credentials = CredentialSource(RESTConfig(server="https://c", plugin=plugin))
        assert [(await credentials.fetch()).token for _ in range(2)] == ["token-1-False", "token-2-False"]

    run(test())


def test_a_token_of_ones_own_wins_over_a_program(tmp_path: Path) -> None:
    async def test() -> None:
        credentials = CredentialSource(RESTConfig(server="https://c", token="mine", plugin=scripted(tmp_path)))
        assert (await credentials.fetch()).token == "mine"
        assert not (tmp_path / "count").exists()

    run(test())


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        (ExecPlugin(version=V1, command="/no/such/program", hint="install it"), r"cannot be run: .*\(install it\)"),
        (ExecPlugin(version=V1, command=sys.executable, arguments=("-c", "raise SystemExit(3)")), "exit code 3"),
        (
            ExecPlugin(version=V1, command=sys.executable, arguments=("-c", "print('x' * 3_000_000)")),
            "printed more than",
        ),
    ],
)
def test_a_program_that_fails_makes_the_server_unreachable_with_nothing_sent(plugin: ExecPlugin, words: str) -> None:
    async def test() -> None:
        with pytest.raises(Unreachable, match=words) as caught:
            await run_plugin(plugin)
        assert not caught.value.sent

    run(test())


def test_files_are_read_again_when_they_change_and_kept_while_they_are_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.client.io.credentials._CHECK_EVERY_S", 0.0)
    token = tmp_path / "token"

    async def test() -> None:
        token.write_text("one\n")
        credentials = CredentialSource(RESTConfig(server="https://c", token_file=str(tmp_path / "token")))
        assert await credentials.fetch() == ClientIdentity(token="one")
        touch_later(token, "two\n")
        assert (await credentials.fetch()).token == "two"
        token.unlink()
        assert (await credentials.fetch()).token == "two"
        assert not await credentials.renew(ClientIdentity(token="two"))

    run(test())


def test_files_that_never_were_there_are_named(tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(Unreachable, match=r"credentials cannot be read: .*token"):
            await CredentialSource(RESTConfig(server="https://c", token_file=str(tmp_path / "token"))).fetch()

    run(test())
