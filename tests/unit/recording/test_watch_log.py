"""Lines about watches that are lost and come back."""

from __future__ import annotations

from headgate.recording.watch_log import WatchLog


def test_resources_that_are_lost_for_one_reason_are_in_one_line() -> None:
    log = WatchLog()
    for name in ("pods", "nodes", "jobs", "events", "queues"):
        log.lose(name, "connection refused", 10.0)
    log.lose("pods", "something else", 12.0)
    assert list(log.take_lines()) == ["not watched: events, jobs, nodes and 2 more: connection refused"]
    assert not list(log.take_lines())


def test_a_watch_that_is_back_is_named_with_the_time() -> None:
    log = WatchLog()
    log.lose("pods", "connection refused", 10.0)
    log.regain("nodes", 11.0)
    log.regain("pods", 52.0)
    assert list(log.take_lines()) == ["not watched: pods: connection refused", "watched again: pods, after 42s"]
    assert not log.lost
    log.lose("pods", "gone again", 60.0)
    assert list(log.take_lines()) == ["not watched: pods: gone again"]
