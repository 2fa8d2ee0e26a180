"""A server whose disk fails: refused writes do not exist after a kill, and the responses say what is wrong."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from harness.cluster import Cluster

MAPS = "/api/v1/namespaces/default/configmaps"
PROMISED_S = 30

# The command as it is installed, with a disk that fails where a file of that name says so.
PROGRAM = """
import errno, sqlite3, sys
from pathlib import Path
from headgate.cli.main import main
from headgate.store.io.journal import Journal

failing = Path(sys.argv.pop(1))

def disk(point):
    if (failing / point).exists():
        if point == "marking":
            raise OSError(errno.EIO, "Input/output error")
        raise sqlite3.OperationalError("disk I/O error")

Journal.open.__func__.__defaults__ = (disk,)
sys.exit(main())
"""


class FailingDisk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def fail(self, *points: str) -> None:
        for point in points:
            (self.folder / point).touch()

    def mend(self) -> None:
        for path in self.folder.iterdir():
            path.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> FailingDisk:
    return FailingDisk(tmp_path / "failing")


def start(data: Path, disk: FailingDisk) -> Cluster:
    program = (sys.executable, "-c", PROGRAM, str(disk.folder))
    return Cluster(data, "--components", "apiserver", program=program)


def names(cluster: Cluster) -> set[str]:
    _, listed = cluster.ask("GET", MAPS)
    return {item["metadata"]["name"] for item in listed["items"]} - {"kube-root-ca.crt"}


@pytest.mark.parametrize("point", ["written", "committed"], ids=["before the commit", "when the commit is synced"])
def test_a_write_that_was_refused_does_not_exist_after_kill_9(tmp_path: Path, disk: FailingDisk, point: str) -> None:
    refused: set[str] = set()
    for number in range(3):
        with start(tmp_path / "data", disk) as cluster:
            assert cluster.ask("POST", MAPS, {"metadata": {"name": f"kept-{number}"}})[0] == 201
            disk.fail(point)
            status, answer = cluster.ask("POST", MAPS, {"metadata": {"name": f"refused-{number}"}})
            assert (status, answer["reason"]) == (500, "InternalError")
            assert "nothing was written" in answer["message"]
            refused.add(f"refused-{number}")
            cluster.stop(signal.SIGKILL)
        disk.mend()
    with start(tmp_path / "data", disk) as cluster:
        assert names(cluster) == {f"kept-{number}" for number in range(3)}
        assert not names(cluster) & refused


def test_an_unknown_outcome_is_reported_as_unknown(tmp_path: Path, disk: FailingDisk) -> None:
    with start(tmp_path / "data", disk) as cluster:
        disk.fail("marking")
        status, answer = cluster.ask("POST", MAPS, {"metadata": {"name": "unknown"}})
        assert (status, answer["reason"]) == (500, "InternalError")
        assert answer["details"]["causes"][0]["reason"] == "OutcomeUnknown"
        assert "the outcome of this write is unknown" in answer["message"]
        assert cluster.ask("GET", f"{MAPS}/unknown")[0] == 404
        status, answer = cluster.ask("POST", MAPS, {"metadata": {"name": "refused"}})
        assert "nothing was written" in answer["message"]
        cluster.stop(signal.SIGKILL)
    disk.mend()
    with start(tmp_path / "data", disk) as cluster:
        assert names(cluster) <= {"unknown"}


def test_a_failing_disk_is_seen_in_readiness_and_logged_once(tmp_path: Path, disk: FailingDisk) -> None:
    with start(tmp_path / "data", disk) as cluster:
        assert cluster.text("/readyz") == (200, "ok")
        disk.fail("committed")
        for number in range(5):
            assert cluster.ask("POST", MAPS, {"metadata": {"name": f"refused-{number}"}})[0] == 500
        status, text = cluster.text("/readyz")
        assert (status, "[-]storage failed" in text) == (500, True), text
        status, text = cluster.text("/readyz/storage")
        assert (status, "disk I/O error" in text) == (500, True), text
        assert cluster.ask("GET", f"{MAPS}/refused-0")[0] == 404  # reads go on
        disk.mend()
        ends_s = time.monotonic() + PROMISED_S
        while cluster.text("/readyz") != (200, "ok"):  # without a write of a client
            assert time.monotonic() < ends_s
            time.sleep(0.1)
        assert cluster.ask("POST", MAPS, {"metadata": {"name": "after"}})[0] == 201
        assert names(cluster) == {"after"}
        code, _, err = cluster.stop()
    assert code == 0
    assert [line.partition("WARNING ")[2] for line in err.splitlines() if "disk" in line] == [
        "the disk fails: disk I/O error; writes are refused until it works again, reads continue",
        "the disk works again: writes are accepted",
    ]
