"""A start on a data folder with a file that is missing, damaged, unreadable, or not a file at all.

What others rely on and cannot be made again is refused in one line, and nothing is changed. What can be derived again
is made anew, with a log line.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from harness.cluster import Cluster
from harness.embedded_server import HEADGATE
from harness.headgate_cli import headgate

MAPS = "/api/v1/namespaces/default/configmaps"
NAMED = "kept"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two stopped clusters of one object each."""
    made: list[Path] = []
    for name in ("first", "second"):
        with Cluster(tmp_path_factory.mktemp(name) / "data", "--components", "apiserver") as cluster:
            assert cluster.ask("POST", MAPS, {"metadata": {"name": NAMED}})[0] == 201
            assert cluster.stop()[0] == 0
        made.append(cluster.data)
    return made[0], made[1]


@pytest.fixture
def data(folders: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders[0], tmp_path / "data"))


def up(data: Path, *flags: str) -> tuple[int, str, str]:
    return headgate("up", "--data", data, "--listen", "127.0.0.1:0", "--components", "apiserver", *flags)


def contents(data: Path) -> dict[str, bytes]:
    """Every file that a user may have a copy of, and what depends on it."""
    files = [data / "token", data / "kubeconfig", *(data / "pki").iterdir()]
    return {str(file): file.read_bytes() for file in files if file.is_file()}


def assert_refused(data: Path, file: Path, *words: str) -> None:
    before = contents(data)
    code, _, err = up(data)
    assert (code, err.count("\n")) == (1, 1), err
    assert err.startswith(f"headgate up: {file} "), err
    for word in words:
        assert word in err
    assert contents(data) == before


def remove(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def garbage(file: Path) -> None:
    file.write_bytes(b"garbage\xff\n")


def directory(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.mkdir()


def dangling_link(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.symlink_to("nowhere")


def link_loop(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.symlink_to(file.name)


def pipe(file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mkfifo(file)


DAMAGES = [
    (remove, "is missing"),
    (empty, "is empty"),
    (garbage, "can be read"),
    (directory, "is a directory"),
    (dangling_link, "is a link to nowhere"),
    (link_loop, "cannot be read: Too many levels"),
    (pipe, "is not a regular file"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES)
@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "sa.key"])
def test_a_key_that_others_rely_on_is_refused_and_not_replaced(
    data: Path, name: str, damage: Callable[[Path], None], words: str
) -> None:
    file = data / "pki" / name
    damage(file)
    reliant = "the tokens of service accounts" if name == "sa.key" else "kubeconfigs and client certificates"
    assert_refused(
        data, file, words, f"{reliant} rely on it", "restore it from a copy", f"move the folder {file.parent}"
    )
    code, out, _ = headgate("check", "--data", data)
    assert code == 1
    assert f"{file} " in out


@pytest.mark.parametrize("name", ["ca.crt", "ca.key"])
def test_an_authority_with_the_key_of_another_is_refused(folders: tuple[Path, Path], data: Path, name: str) -> None:
    shutil.copy(folders[1] / "pki" / name, data / "pki" / name)
    assert_refused(data, data / "pki" / "ca.key", "is not the key of the certificate beside it")


def test_a_missing_pki_folder_is_recreated_with_a_warning(folders: tuple[Path, Path], data: Path) -> None:
    shutil.move(data / "pki", data / "old-pki")
    with Cluster(data, "--components", "apiserver") as cluster:
        assert cluster.ask("GET", f"{MAPS}/{NAMED}")[0] == 200
        code, _, err = cluster.stop()
    assert (code, err.count("\n")) == (0, 1), err
    assert (
        f"{data / 'pki'} was missing: a new certificate authority and a new service account key were generated" in err
    )
    for name in ("ca.crt", "ca.key", "sa.key"):
        assert (data / "pki" / name).read_bytes() != (data / "old-pki" / name).read_bytes()
    assert not (data / "pki.partial").exists()


def test_a_first_start_warns_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "data" / "pki.partial").mkdir(parents=True)  # of a first start that was killed
    with Cluster(tmp_path / "data", "--components", "apiserver") as cluster:
        code, _, err = cluster.stop()
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (remove, "was missing"),
        (empty, "was empty"),
        (garbage, "did not hold one token"),
        (lambda file: file.write_text("one\ntwo\n"), "did not hold one token"),
    ],
)
def test_a_damaged_token_is_recreated_and_logged(data: Path, damage: Callable[[Path], None], words: str) -> None:
    old = (data / "token").read_text().strip()
    damage(data / "token")
    with Cluster(data, "--components", "apiserver") as cluster:
        assert cluster.token == (data / "token").read_text().strip() != old
        assert cluster.ask("GET", f"{MAPS}/{NAMED}")[0] == 200
        for wrong in (old, "one", "two", "one\\ntwo"):
            assert cluster.ask("GET", MAPS, token=wrong)[0] == 401
        code, _, err = cluster.stop()
    assert (code, err.count("\n")) == (0, 1), err
    assert f"{data / 'token'} {words}: a new administrator token was generated" in err


@pytest.mark.parametrize(("damage", "words"), DAMAGES[3:])
def test_a_token_that_is_not_a_file_is_refused(data: Path, damage: Callable[[Path], None], words: str) -> None:
    damage(data / "token")
    assert_refused(data, data / "token", words, "remove it: a start creates a new token")


@pytest.mark.parametrize(("damage", "words"), [each for each in DAMAGES if each[0] is not directory])
@pytest.mark.parametrize("name", ["pki/server.crt", "pki/server.key", "kubeconfig"])
def test_derived_files_are_recreated_and_logged(
    data: Path, name: str, damage: Callable[[Path], None], words: str
) -> None:
    damage(data / name)
    with Cluster(data, "--components", "apiserver") as cluster:
        assert cluster.ask("GET", f"{MAPS}/{NAMED}")[0] == 200
        code, _, err = cluster.stop()
    expected = 0 if (name, damage) == ("kubeconfig", remove) else 1
    assert (code, err.count("\n")) == (0, expected), err
    assert expected == 0 or str(data / name) in err


@pytest.mark.parametrize("name", ["pki/server.crt", "pki/server.key", "kubeconfig"])
def test_a_directory_in_the_place_of_a_derived_file_is_one_line(data: Path, name: str) -> None:
    directory(data / name)
    code, _, err = up(data)
    assert (code, err.count("\n")) == (1, 1), err
    assert str(data / name) in err
    assert "directory" in err


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        *((name, *DAMAGES[3]) for name in ("headgate.db", "headgate.db-wal", "headgate.db-shm", "headgate.db-mark")),
        ("headgate.db-wal", dangling_link, "is a symbolic link to nowhere"),
        ("headgate.db-wal", link_loop, "is a symbolic link to headgate.db-wal"),
        ("headgate.db-wal", pipe, "is not a regular file"),
    ],
)
def test_something_else_in_the_place_of_a_file_of_the_store_is_one_line(
    data: Path, name: str, damage: Callable[[Path], None], words: str
) -> None:
    damage(data / name)
    assert_refused(data, data / name, words)
    for command in (("check",), ("check", "--drop-damaged"), ("backup", data / "copy.db")):
        code, out, err = headgate(*command, "--data", data)
        assert (code, (out + err).count("\n")) == (1, 1), err
        assert str(data / name) in err


@pytest.mark.parametrize("damage", [directory, link_loop])
def test_a_lock_that_is_not_a_file_is_one_line(data: Path, damage: Callable[[Path], None]) -> None:
    damage(data / "lock")
    code, _, err = up(data)
    assert (code, err.count("\n")) == (1, 1), err
    assert str(data / "lock") in err


def test_the_files_beside_the_store_that_hold_nothing_may_be_garbage(data: Path) -> None:
    garbage(data / "lock")
    garbage(data / "headgate.db-shm")
    with Cluster(data, "--components", "apiserver") as cluster:
        assert cluster.ask("GET", f"{MAPS}/{NAMED}")[0] == 200
        assert (data / "lock").read_text() == f"{cluster.process.pid}\n"


@pytest.mark.parametrize("name", ["pki/ca.crt", "pki/ca.key", "pki/sa.key", "token", "headgate.db", "headgate.db-wal"])
def test_a_file_that_may_not_be_read_is_one_line(data: Path, name: str) -> None:
    (data / name).touch()
    (data / name).chmod(0)
    # Root reads every file, unless it has given up the capability for that.
    program = [] if os.geteuid() else ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    run = subprocess.run(
        [*program, str(HEADGATE), "up", "--data", str(data), "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stderr.count("\n")) == (1, 1), run.stderr
    assert f"{data / name} cannot be read: permission denied" in run.stderr.replace("Permission", "permission")


def test_a_start_writes_nothing_that_is_there_already(data: Path) -> None:
    with Cluster(data, "--components", "apiserver") as cluster:
        port = cluster.url.rpartition(":")[2]
        assert cluster.stop()[0] == 0
    files = [data / "token", data / "kubeconfig", *(data / "pki").iterdir()]
    before = {file: file.stat() for file in files}
    with Cluster(data, "--components", "apiserver", "--listen", f"127.0.0.1:{port}") as again:
        assert again.stop(signal.SIGTERM)[0] == 0
    for file, was in before.items():
        now = file.stat()
        assert (now.st_ino, now.st_mtime_ns, now.st_ctime_ns) == (was.st_ino, was.st_mtime_ns, was.st_ctime_ns), file
    assert yaml.safe_load((data / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"].endswith(port)


@pytest.mark.parametrize("name", ["headgate.db", "headgate.db-mark", "lock"])
def test_a_file_of_the_store_on_another_disk_is_refused_with_what_to_do(data: Path, tmp_path: Path, name: str) -> None:
    """SQLite would keep its log beside the target of the link, and a check of the folder would not find it."""
    target = tmp_path / "elsewhere"
    shutil.move(data / name, target)
    (data / name).symlink_to(target)
    assert_refused(data, data / name, f"is a symbolic link to {target}", "move the whole folder")
    code, _, err = headgate("check", "--drop-damaged", "--data", data)
    assert code == 1
    assert "is a symbolic link" in err


def test_a_linked_data_folder_is_served(data: Path, tmp_path: Path) -> None:
    moved = shutil.move(data, tmp_path / "disk")
    data.symlink_to(moved)
    with Cluster(data, "--components", "apiserver") as cluster:
        assert cluster.ask("GET", f"{MAPS}/{NAMED}")[0] == 200


@pytest.mark.parametrize("name", ["kubeconfig", "token"])
def test_check_names_what_is_in_the_place_of_a_file_that_the_start_writes(data: Path, name: str) -> None:
    directory(data / name)
    assert up(data)[0] == 1
    code, out, _ = headgate("check", "--data", data)
    assert code == 1
    assert str(data / name) in out
