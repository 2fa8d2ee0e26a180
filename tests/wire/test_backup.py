"""``headgate backup``, ``restore`` and ``check`` as a user meets them, beside a server that is being written to."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.cluster import Cluster
from harness.headgate_cli import headgate

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "data", "--components", "apiserver") as running:
        yield running


def test_a_backup_of_a_busy_server_is_a_prefix_of_what_was_answered(cluster: Cluster, tmp_path: Path) -> None:
    answered: list[tuple[int, str]] = []
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            name = f"m{len(answered)}"
            status, made = cluster.ask("POST", MAPS, {"metadata": {"name": name}})
            assert status == 201
            answered.append((int(made["metadata"]["resourceVersion"]), name))

    writer = threading.Thread(target=write)
    writer.start()
    backup = tmp_path / "copy.db"
    try:
        code, out, err = headgate("backup", backup, "--data", cluster.data)
    finally:
        done.set()
        writer.join()
    assert (code, err) == (0, "")
    assert "verified" in out
    revision = int(out.split("revision ")[1].split(",")[0])
    last = cluster.ask("GET", MAPS)[1]["metadata"]["resourceVersion"]
    assert cluster.stop()[0] == 0

    assert headgate("check", backup) == (0, f"{backup} is sound\n", "")
    code, out, err = headgate("restore", backup, "--data", tmp_path / "again")
    assert (code, err) == (0, "")
    with Cluster(tmp_path / "again", "--components", "apiserver") as again:
        _, listed = again.ask("GET", MAPS)
        names = {item["metadata"]["name"] for item in listed["items"]} - {"kube-root-ca.crt"}
        assert names == {name for at, name in answered if at <= revision}
        assert int(listed["metadata"]["resourceVersion"]) > int(last)
        _, event = again.ask("GET", f"{MAPS}?watch=1&timeoutSeconds=2&resourceVersion={last}")
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_refusals_are_one_line_each(cluster: Cluster, tmp_path: Path) -> None:
    backup = tmp_path / "copy.db"
    assert headgate("backup", backup, "--data", cluster.data)[0] == 0
    for arguments, words in (
        (("backup", backup, "--data", cluster.data), "already exists"),
        (("backup", tmp_path / "x.db", "--data", tmp_path / "nowhere"), "does not exist"),
        (("backup", tmp_path / "no" / "x.db", "--data", cluster.data), "is not a folder"),
        (("restore", backup, "--data", cluster.data), "in use by process"),
        (("restore", tmp_path / "nothing.db", "--data", tmp_path / "again"), "does not exist"),
        (("check", "--drop-damaged", "--data", cluster.data), "in use by process"),
    ):
        code, out, err = headgate(*arguments)
        assert (code, out, err.count("\n")) == (1, "", 1), arguments
        assert words in err


def test_a_damaged_folder_is_named_at_start_and_can_be_opened_again_at_a_price(cluster: Cluster) -> None:
    for name in ("kept", "lost"):
        assert cluster.ask("POST", MAPS, {"metadata": {"name": name}})[0] == 201
    cluster.stop()
    with sqlite3.connect(cluster.data / "headgate.db") as connection:
        connection.execute("UPDATE log SET data = 'x' WHERE name = 'lost'")
    connection.close()
    code, _, err = headgate("up", "--data", cluster.data, "--listen", "127.0.0.1:0")
    assert (code, err.count("\n")) == (1, 1)
    assert "(configmaps default/lost) does not match its checksum" in err
    assert "headgate check --drop-damaged" in err
    code, out, _ = headgate("check", "--data", cluster.data)
    assert code == 1
    assert "default/lost" in out
    assert headgate("check", "--data", cluster.data, "--drop-damaged")[0] == 0
    with Cluster(cluster.data, "--components", "apiserver") as again:
        assert again.ask("GET", f"{MAPS}/kept")[0] == 200
        assert again.ask("GET", f"{MAPS}/lost")[0] == 404


def zero_the_first_sector(wal: Path) -> None:
    with wal.open("r+b") as file:
        file.write(bytes(512))


def cut_in_half(wal: Path) -> None:
    os.truncate(wal, wal.stat().st_size // 2)


@pytest.mark.parametrize("damage", [zero_the_first_sector, cut_in_half, Path.unlink])
def test_acknowledged_writes_that_are_missing_after_a_kill_are_named_and_refused(
    cluster: Cluster, damage: Callable[[Path], None]
) -> None:
    wal = cluster.data / "headgate.db-wal"
    count = 0
    while count < 20 or not wal.stat().st_size:  # the last checkpoint may have been just now
        assert cluster.ask("POST", MAPS, {"metadata": {"name": f"m{count}"}})[0] == 201
        count += 1
    cluster.stop(signal.SIGKILL)
    damage(wal)
    for command in (("up", "--listen", "127.0.0.1:0"), ("check",)):
        code, out, err = headgate(*command, "--data", cluster.data)
        assert code == 1
        assert re.search(r"\d+ acknowledged commits? (is|are) missing \(revisions? \d+", out + err), out + err
    code, out, err = headgate("check", "--data", cluster.data, "--drop-damaged")
    assert (code, err) == (0, "")
    assert "lost: " in out
    with Cluster(cluster.data, "--components", "apiserver") as again:
        _, listed = again.ask("GET", MAPS)
        kept = {item["metadata"]["name"] for item in listed["items"]} - {"kube-root-ca.crt"}
        assert kept == {f"m{number}" for number in range(len(kept))}  # a prefix of what was written
        assert len(kept) == count or "were acknowledged, and nothing of them is in the files" in out


def test_a_file_whose_last_tenth_is_cut_keeps_what_can_be_read(cluster: Cluster) -> None:
    for number in range(40):
        made = {"metadata": {"name": f"m{number:02}"}, "data": {"key": "x" * 20_000}}
        assert cluster.ask("POST", MAPS, made)[0] == 201
    cluster.stop()
    file = cluster.data / "headgate.db"
    os.truncate(file, file.stat().st_size * 9 // 10)
    assert headgate("check", "--data", cluster.data)[0] == 1
    code, out, _ = headgate("check", "--data", cluster.data, "--drop-damaged")
    assert code == 0
    lost, rows = map(int, re.findall(r"lost: (\d+) of (\d+) rows cannot be read", out)[0])
    assert int(re.findall(r"kept (\d+) sound rows", out)[0]) == rows - lost
    with Cluster(cluster.data, "--components", "apiserver") as again:
        _, listed = again.ask("GET", MAPS)
        names = {item["metadata"]["name"] for item in listed["items"]} - {"kube-root-ca.crt"}
        assert 25 <= len(names) < 40
        assert 40 - len(names) <= lost


@pytest.mark.parametrize("command", ["backup", "restore", "check"])
def test_help_shows_an_example(command: str) -> None:
    code, out, _ = headgate(command, "--help")
    assert code == 0
    assert "Example" in out
    assert f"headgate {command}" in out
