"""Access to a running cluster: which users may read its files, which users it knows, what it records."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from harness.cluster import Cluster
from harness.embedded_server import HEADGATE

MAPS = "/api/v1/namespaces/default/configmaps"
PRIVATE = ("kubeconfig", "token", "headgate.db", "pki/ca.key", "pki/server.key", "pki/sa.key")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refused(*flags: str) -> str:
    run = subprocess.run([str(HEADGATE), "up", *flags], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1, run
    return run.stderr


def test_what_is_secret_is_for_its_owner_only_whatever_the_umask_and_after_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    before = os.umask(0)
    try:
        for _ in range(2):
            with Cluster(data, "--components", "apiserver") as cluster:
                assert cluster.ask("POST", MAPS, {"metadata": {"generateName": "m-"}})[0] == 201
                files = [path for path in data.rglob("*") if path.is_file()]
                open_to_others = [path.name for path in files if mode(path) & 0o077 and path.suffix != ".crt"]
                assert open_to_others == []
                assert {mode(data / name) for name in PRIVATE} == {0o600}
                assert mode(data) == mode(data / "pki") == 0o700
                cluster.stop(signal.SIGTERM)
            for name in PRIVATE:
                (data / name).chmod(0o666)
            (data / "pki").chmod(0o777)
    finally:
        os.umask(before)


def test_users_of_a_file_are_known_and_have_no_rights_of_their_own(tmp_path: Path) -> None:
    users = tmp_path / "users.csv"
    users.write_text('abc,alice,1\nroot,boss,2,"system:masters"\n')
    with Cluster(tmp_path / "data", "--components", "apiserver", "--token-auth-file", str(users)) as cluster:
        status, told = cluster.ask("GET", MAPS, token="abc")
        assert (status, told["reason"]) == (403, "Forbidden")
        assert cluster.ask("GET", MAPS, token="root")[0] == 200
        assert cluster.ask("GET", MAPS, token="abcd")[0] == 401


def test_a_broken_file_of_users_is_reported(tmp_path: Path) -> None:
    users = tmp_path / "users.csv"
    users.write_text("abc,alice\n")
    data = str(tmp_path / "data")
    text = refused("--data", data, "--listen", "127.0.0.1:0", "--token-auth-file", str(users))
    assert "line 1 must have at least 3 columns" in text
    text = refused("--data", data, "--listen", "127.0.0.1:0", "--token-auth-file", str(tmp_path / "none"))
    assert "No such file" in text


@pytest.mark.parametrize(("level", "bodies"), [("Metadata", 0), ("RequestResponse", 2)])
def test_writes_are_recorded(tmp_path: Path, level: str, bodies: int) -> None:
    log = tmp_path / "audit.log"
    flags = ("--components", "apiserver", "--audit-log", str(log), "--audit-level", level)
    with Cluster(tmp_path / "data", *flags) as cluster:
        cluster.ask("POST", MAPS, {"metadata": {"name": "m"}, "data": {"k": "v"}})
        cluster.ask("GET", f"{MAPS}/m")
        cluster.ask("DELETE", f"{MAPS}/m", token="wrong")
        cluster.ask(
            "POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "data": {"k": "c2VjcmV0"}}
        )
        cluster.stop(signal.SIGTERM)
    text = log.read_text()
    events = [json.loads(line) for line in text.splitlines()]
    ours = [each for each in events if each["userAgent"].startswith("Python-urllib")]
    assert [(each["verb"], each["responseStatus"]["code"]) for each in ours] == [
        ("create", 201),
        ("delete", 401),
        ("create", 201),
    ]
    assert sum(field in ours[0] for field in ("requestObject", "responseObject")) == bodies
    assert ours[0]["sourceIPs"] == ["127.0.0.1"]
    assert ours[0]["user"]["username"] == "kubernetes-admin"
    assert "c2VjcmV0" not in text
    assert cluster.token not in text
    assert mode(log) == 0o600


def test_an_audit_log_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    text = refused("--data", data, "--listen", "127.0.0.1:0", "--audit-log", str(tmp_path / "none" / "log"))
    assert "cannot write --audit-log" in text


def test_a_service_account_comes_in_with_its_token_also_after_a_restart(tmp_path: Path) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    with Cluster(tmp_path / "data", "--components", "apiserver") as cluster:
        assert cluster.ask("POST", accounts, {"metadata": {"name": "robot"}})[0] == 201
        token = cluster.ask("POST", f"{accounts}/robot/token", {})[1]["status"]["token"]
        cluster.stop(signal.SIGTERM)
    with Cluster(tmp_path / "data", "--components", "apiserver") as again:
        status, told = again.ask("POST", who, {}, token=token)
        assert status == 201
        assert told["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
        again.ask("DELETE", f"{accounts}/robot")
        assert again.ask("POST", who, {}, token=token)[0] == 401


def test_the_sums_of_roles_are_filled_in(tmp_path: Path) -> None:
    """With the controllers on, `view` is a role that one can be given."""
    binding = {
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}],
    }
    users = tmp_path / "users.csv"
    users.write_text("abc,alice,1\n")
    flags = ("--components", "apiserver,controllers", "--token-auth-file", str(users))
    with Cluster(tmp_path / "data", *flags) as cluster:
        place = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
        assert cluster.ask("POST", place, binding)[0] == 201
        for _ in range(200):
            if cluster.ask("GET", MAPS, token="abc")[0] == 200:
                break
        assert cluster.ask("GET", MAPS, token="abc")[0] == 200
        assert cluster.ask("GET", "/api/v1/namespaces/default/secrets", token="abc")[0] == 403
