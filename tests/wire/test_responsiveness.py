"""Eight clients send the largest bodies that the server takes; a ninth reads a small object and does not notice."""

from __future__ import annotations

from pathlib import Path

from harness.embedded_server import EmbeddedServer
from large_bodies import Client, Measured, bodies, measure, prepare

CLIENTS = 8
ROUND_S = 10.0
ROUNDS = 3
"""The bound is one of wall time, and the machine may have other things to do: the best round counts."""
BOUND_S = 0.5


def test_a_small_read_is_answered_in_time_beside_the_largest_writes(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path)
    try:
        client = Client(server.url, server.token, str(server.ca))
        prepare(client)
        client.close()
        rounds: list[Measured] = []
        for _ in range(ROUNDS):
            rounds.append(measure(server.url, server.token, server.ca, clients=CLIENTS, seconds=ROUND_S))
            if rounds[-1].percentile_s(99) <= BOUND_S:
                break
        best = min(rounds, key=lambda each: each.percentile_s(99))
        assert best.percentile_s(99) <= BOUND_S, [f"{each.percentile_s(99):.3f}" for each in rounds]
        assert len(best.latencies_s) >= 50
        # The bodies were taken in and worked on. What becomes too long for the store is refused after that, with a 500.
        assert {name.partition(": ")[0] for name in best.answers} <= set(bodies())
        assert not [name for name in best.answers if name.endswith((": 400", ": 413", ": 429", ": 503"))], best.answers
        assert sum(count for name, count in best.answers.items() if name.endswith((": 200", ": 201"))) >= CLIENTS // 2
    finally:
        server.stop()
