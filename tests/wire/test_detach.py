"""``headgate up --detach`` and ``headgate down``: a cluster in the background, and what may go wrong with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import HEADGATE
from harness.headgate_cli import headgate
from headgate.cli.embedded.process_record import FILE_NAME, start_time
from headgate.cli.embedded.stopping import stop_server

DEADLINE_S = 60.0


def up(data: Path, *flags: str) -> tuple[int, str, str]:
    return headgate("up", "--detach", "--data", data, "--listen", "127.0.0.1:0", "--components", "apiserver", *flags)


def down(data: Path, *flags: str) -> tuple[int, str, str]:
    return headgate("down", "--data", data, *flags)


def record(data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((data / FILE_NAME).read_text())
    return found


def wait_until(is_done: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not is_done():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "data"
    yield folder
    stop_server(folder, DEADLINE_S, force=True)


def test_it_returns_when_the_server_is_ready_and_prints_the_kubeconfig_and_how_to_stop_it(
    data: Path, kube_binaries: Path
) -> None:
    code, out, err = up(data)
    assert (code, err) == (0, "")
    assert f"export KUBECONFIG={data / 'kubeconfig'}" in out
    assert f"headgate down --data {data}" in out
    command = [str(kube_binaries / "kubectl"), "--kubeconfig", str(data / "kubeconfig"), "get", "--raw", "/readyz"]
    got = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (got.returncode, got.stdout) == (0, "ok")
    assert [stat.S_IMODE((data / name).stat().st_mode) for name in (FILE_NAME, "headgate.log")] == [0o600, 0o600]
    assert "ready" in (data / "headgate.log").read_text().splitlines()


def test_down_stops_it_keeps_the_data_and_may_be_repeated(data: Path) -> None:
    up(data)
    pid = record(data)["pid"]
    code, out, err = down(data)
    assert (code, err) == (0, "")
    assert out == f"stopped process {pid}; everything is kept in {data}\n"
    assert start_time(pid) == ""
    assert not (data / FILE_NAME).exists()
    assert down(data) == (0, f"nothing runs in {data}\n", "")
    assert up(data)[0] == 0, "the folder can be used again"


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert down(missing) == (0, f"nothing runs in {missing}: there is no such folder\n", "")


def test_a_second_start_on_the_same_folder_is_refused_and_the_first_goes_on(data: Path) -> None:
    up(data)
    first = record(data)
    code, _, err = up(data)
    assert code == 1
    assert f"process {first['pid']} serves the data folder {data} already at {first['url']}" in err
    assert f"headgate down --data {data}" in err
    assert record(data) == first


def test_of_two_starts_at_the_same_time_one_succeeds(data: Path) -> None:
    command = [str(HEADGATE), "up", "--detach", "--data", str(data), "--listen", "127.0.0.1:0"]
    command += ["--components", "apiserver"]
    starts = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ended = [(each.communicate(timeout=DEADLINE_S)[1], each.returncode) for each in starts]
    (refusal,) = [err for err, code in ended if code]
    assert f"data folder {data}" in refusal
    assert down(data)[0] == 0


def test_after_kill_9_nothing_runs_and_the_next_start_works(data: Path) -> None:
    up(data)
    pid = record(data)["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: start_time(pid) == "")
    code, out, _ = down(data)
    assert code == 0
    assert f"process {pid} has ended without a clean stop" in out
    assert up(data)[0] == 0
    assert record(data)["pid"] != pid


def test_a_process_that_got_the_same_id_is_not_stopped(data: Path) -> None:
    up(data)
    down(data)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as other:
        try:
            stale = {"pid": other.pid, "started": "an earlier boot 1", "url": "", "kubeconfig": ""}
            (data / FILE_NAME).write_text(json.dumps(stale))
            assert down(data)[0] == 0
            assert other.poll() is None
        finally:
            other.kill()


def test_a_record_of_another_process_does_not_stop_that_process_while_a_server_runs(data: Path) -> None:
    up(data)
    mine = (data / FILE_NAME).read_text()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as other:
        try:
            stale = {"pid": other.pid, "started": "an earlier boot 1", "url": "", "kubeconfig": ""}
            (data / FILE_NAME).write_text(json.dumps(stale))
            code, _, err = down(data)
            assert code == 1
            assert f"the record in the folder is of process {other.pid}" in err
            assert other.poll() is None
        finally:
            other.kill()
            (data / FILE_NAME).write_text(mine)


def test_a_server_that_does_not_stop_is_killed_only_with_force(data: Path) -> None:
    up(data)
    pid = record(data)["pid"]
    os.kill(pid, signal.SIGSTOP)
    code, _, err = down(data, "--timeout", "0.3")
    assert code == 1
    assert f"process {pid} still runs 0.3 s after SIGTERM" in err
    assert "--force" in err
    code, out, _ = down(data, "--timeout", "0.3", "--force")
    assert code == 0
    assert f"killed process {pid}" in out
    assert start_time(pid) == ""


def test_a_folder_that_was_moved_is_stopped_at_its_new_place(data: Path, tmp_path: Path) -> None:
    up(data)
    pid = record(data)["pid"]
    moved = tmp_path / "moved"
    data.rename(moved)
    assert "there is no such folder" in down(data)[1]
    code, out, _ = down(moved)
    assert (code, start_time(pid)) == (0, "")
    assert str(moved) in out


def test_a_server_in_the_foreground_is_stopped_too(data: Path) -> None:
    command = [str(HEADGATE), "up", "--data", str(data), "--listen", "127.0.0.1:0", "--components", "apiserver"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert any(line == "ready\n" for line in server.stdout)
        code, _, err = down(data)
        assert (code, err) == (0, "")
        assert server.wait(timeout=DEADLINE_S) == 0


def test_a_start_that_fails_says_why_and_leaves_no_process(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = headgate("up", "--detach", "--data", data, "--listen", f"127.0.0.1:{port}")
    assert (code, out) == (1, "")
    assert f"port {port} on 127.0.0.1 is in use" in err
    assert down(data)[1] == f"nothing runs in {data}\n"


def test_a_wrong_option_is_refused_before_anything_is_written(data: Path) -> None:
    code, _, err = up(data, "--node-cpu", "many")
    assert code == 2
    assert "--node-cpu 'many'" in err
    assert not data.exists()


def test_a_data_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = up(tmp_path / "file" / "data")
    assert code == 1
    assert "Not a directory" in err


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    """Root may write to read-only folders, but not create folders in /sys."""
    place = Path("/sys") if os.geteuid() == 0 else tmp_path
    if place == tmp_path:
        place.chmod(0o500)
    code, _, err = up(place / "data")
    assert code == 1
    assert "ot permitted" in err or "Permission denied" in err
    assert "choose another folder with --data" in err


def test_a_server_that_is_killed_during_the_start_is_reported_with_its_signal(data: Path) -> None:
    command = [str(HEADGATE), "up", "--detach", "--data", str(data), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as start:
        wait_until(lambda: (data / "headgate.log").exists() and children(start.pid) != [])
        (child,) = children(start.pid)
        os.kill(child, signal.SIGKILL)
        _, err = start.communicate(timeout=DEADLINE_S)
    assert start.returncode == 1
    assert "was ended by signal 9 before it was ready" in err
    assert str(data / "headgate.log") in err


def test_ctrl_c_during_the_start_stops_the_server_again(data: Path) -> None:
    command = [str(HEADGATE), "up", "--detach", "--data", str(data), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as start:
        wait_until(lambda: (data / "headgate.log").exists() and children(start.pid) != [])
        (child,) = children(start.pid)
        start.send_signal(signal.SIGINT)
        _, err = start.communicate(timeout=DEADLINE_S)
    assert start.returncode == 130
    assert "interrupted" in err
    assert start_time(child) == ""


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
