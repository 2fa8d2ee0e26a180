"""A server whose disk is full: it reports this, loses nothing, serves reads, and continues when there is space.

The disk is a real one, of a few megabytes, where the tests may mount one. Elsewhere the kernel refuses to let the
server's files grow.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster import Cluster
from harness.embedded_server import HEADGATE
from headgate.store.io.database_file import FILE

MAPS = "/api/v1/namespaces/default/configmaps"
ROOM_BYTES = 8 * 1024 * 1024


class SmallDisk:
    """A file system of its own, and a file that takes most of what is left of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, leave_bytes: int) -> None:
        state = os.statvfs(self.folder)
        with self._ballast.open("wb") as file:
            file.write(b"x" * (state.f_bavail * state.f_frsize - leave_bytes))

    def make_room(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = shutil.which("mount") is not None and os.geteuid() == 0
    if mounted:
        command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "headgate-test", str(folder)]
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    if not mounted:
        pytest.skip("only root can mount a small disk")  # every run has it by a limit on file sizes, without a mount
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


FULL = (507, "InsufficientStorage", "is full")
BROKEN = (500, "InternalError", "cannot be written")  # SQLite does not say why the disk refused


def put(cluster: Cluster, name: str, refusal: tuple[int, str, str] = FULL) -> bool:
    status, answer = cluster.ask("POST", MAPS, {"metadata": {"name": name}, "data": {"k": "x" * 100_000}})
    if status == 201:
        return True
    assert (status, answer["reason"]) == refusal[:2], answer
    assert refusal[2] in answer["message"]
    return False


def names(cluster: Cluster) -> set[str]:
    status, listed = cluster.ask("GET", MAPS)
    assert status == 200
    return {item["metadata"]["name"] for item in listed["items"]} - {"kube-root-ca.crt"}


def fill_up(cluster: Cluster, prefix: str, refusal: tuple[int, str, str] = FULL) -> set[str]:
    """Writes until the disk refuses; returns what was answered with success."""
    kept: set[str] = set()
    for number in range(100):
        name = f"{prefix}{number}"
        if not put(cluster, name, refusal):
            return kept
        kept.add(name)
    raise AssertionError("the disk never became full")


def start(data: Path) -> Cluster:
    return Cluster(data, "--components", "apiserver")


def test_a_full_disk_refuses_writes_serves_reads_and_recovers(small_disk: SmallDisk) -> None:
    data = small_disk.folder / "data"
    with start(data) as cluster:
        small_disk.fill(leave_bytes=1_500_000)
        kept = fill_up(cluster, "m")
        assert names(cluster) == kept
        assert not put(cluster, "refused")
        assert cluster.ask("GET", f"{MAPS}/refused")[0] == 404
        small_disk.make_room()
        assert put(cluster, "after")
        kept.add("after")
        assert names(cluster) == kept
        cluster.stop(signal.SIGKILL)
    with start(data) as cluster:
        assert names(cluster) == kept
        small_disk.fill(leave_bytes=200_000)
        kept |= fill_up(cluster, "n")
        cluster.stop(signal.SIGKILL)
    small_disk.make_room()
    with start(data) as cluster:
        assert names(cluster) == kept
        assert cluster.stop()[0] == 0


def test_a_start_on_a_full_disk_reports_the_full_disk(small_disk: SmallDisk) -> None:
    data = small_disk.folder / "data"
    with start(data) as cluster:
        assert put(cluster, "kept")
        cluster.stop()
    small_disk.fill(leave_bytes=0)
    run = subprocess.run(
        [str(HEADGATE), "up", "--data", str(data), "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stderr.count("\n")) == (1, 1), run.stderr
    assert "the disk is full; free some space" in run.stderr
    small_disk.make_room()
    with start(data) as cluster:
        assert names(cluster) == {"kept"}


def test_after_a_kill_on_a_full_disk_the_server_starts_and_serves_what_is_there(small_disk: SmallDisk) -> None:
    data = small_disk.folder / "data"
    with start(data) as cluster:
        port = cluster.url.rpartition(":")[2]
        small_disk.fill(leave_bytes=1_000_000)
        kept = fill_up(cluster, "m")
        cluster.stop(signal.SIGKILL)
    with (small_disk.folder / "rest").open("wb", buffering=0) as rest, contextlib.suppress(OSError):
        while rest.write(bytes(4096)):
            pass
    with Cluster(data, "--components", "apiserver", "--listen", f"127.0.0.1:{port}") as again:
        assert names(again) == kept
        status, answer = again.ask("DELETE", f"{MAPS}/m0")
        assert status == 200 or (status, answer["reason"]) == FULL[:2]
        small_disk.make_room()
        assert put(again, "after")


def test_a_file_that_may_not_grow_is_refused_in_the_same_way(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start(data) as cluster:
        pid = cluster.process.pid
        unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, ((data / FILE).stat().st_size + 1_000_000, unlimited[1]))
        kept = fill_up(cluster, "m", BROKEN)
        assert names(cluster) == kept
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        assert put(cluster, "after")
        kept.add("after")
        assert names(cluster) == kept
        assert cluster.stop()[0] == 0
    with start(data) as cluster:
        assert names(cluster) == kept
