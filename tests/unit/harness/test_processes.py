"""Ports for programs of tests: no outgoing connection and no other test process gets them before the program binds."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from pathlib import Path

import pytest

from harness.processes import LAST_PORT, PORTS_OF_A_BLOCK, PortBlock, Process, free_ports

CHOSEN_BY_THE_KERNEL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_the_kernel_gives_no_outgoing_connection_such_a_port() -> None:
    lowest = int(CHOSEN_BY_THE_KERNEL.read_text().split()[0]) if CHOSEN_BY_THE_KERNEL.exists() else 32768
    if lowest < 32768:
        pytest.skip("this machine gives more ports to outgoing connections than others do")
    assert lowest > LAST_PORT


def test_two_test_processes_never_get_the_same_port() -> None:
    with contextlib.closing(PortBlock()) as one, contextlib.closing(PortBlock()) as other:
        assert not {one.next_free() for _ in range(100)} & {other.next_free() for _ in range(100)}


def test_a_port_is_not_given_out_again_soon_and_never_while_it_is_used() -> None:
    with contextlib.closing(PortBlock()) as block, socket.socket() as used:
        given = [block.next_free() for _ in range(PORTS_OF_A_BLOCK // 2)]
        assert len(set(given)) == len(given)
        used.bind(("127.0.0.1", given[0]))
        used.listen()
        assert given[0] not in {block.next_free() for _ in range(PORTS_OF_A_BLOCK)}


def test_several_ports_at_once_differ() -> None:
    assert len(set(free_ports(20))) == 20


def test_a_process_that_got_sigstop_has_stopped(tmp_path: Path) -> None:
    process = Process([sys.executable, "-c", "while True: pass"], tmp_path / "busy.log")
    try:
        process.signal(signal.SIGSTOP)
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert (state, process.running()) == ("T", True)
    finally:
        process.kill()
