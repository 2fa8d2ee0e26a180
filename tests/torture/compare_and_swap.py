"""Compare-and-swap: eight writers increment twenty counters; each write names the revision that it was computed from.

Revisions order all writes, so one pass over a history shows whether it is linearizable: each write is based on the
previous write of its key; a write that began after the end of another one comes after it; a read returns the newest
write that ended before the read began, or a later one; and each conflict has a write that came first.
"""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec

from embedded import TOKEN, Embedded
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.store.io.committer import Committer
from headgate.store.io.journal import Journal
from torture.https_client import Client, Target

NEVER = 1 << 63
WRITERS = 8
KEYS = 20
MAPS = "/api/v1/namespaces/default/configmaps"


class Op(msgspec.Struct, frozen=True):
    kind: str
    """``write``, ``read`` or ``conflict``."""
    key: str
    began_ns: int
    ended_ns: int
    based_on: int
    """The revision that the writer sent along; 0 for a creation."""
    revision: int
    """What the server answered; 0 for a conflict."""
    value: int


class Illegal(AssertionError):
    pass


def check(history: Iterable[Op]) -> int:
    """Raises ``Illegal`` if the history is not linearizable; returns the number of operations."""
    ops = list(history)
    _check_order(sorted((op for op in ops if op.kind == "write"), key=lambda op: op.revision))
    for key in {op.key for op in ops}:
        _check_key([op for op in ops if op.key == key])
    return len(ops)


def _check_order(writes: list[Op]) -> None:
    """No write has a lower revision than one that had ended before it began."""
    earliest_end_ns = NEVER
    for op in reversed(writes):
        if earliest_end_ns < op.began_ns:
            raise Illegal(f"revision {op.revision} was given out after a higher one had been answered")
        earliest_end_ns = min(earliest_end_ns, op.ended_ns)


def _check_key(ops: list[Op]) -> None:
    writes = sorted((op for op in ops if op.kind == "write"), key=lambda op: op.revision)
    for before, after in pairwise(writes):
        if after.based_on != before.revision or after.value != before.value + 1:
            raise Illegal(f"{after} does not follow {before}")
    by_revision = {write.revision: write for write in writes}
    revisions = [write.revision for write in writes]
    began_ns = _earliest_from([write.began_ns for write in writes])
    ended_ns = _earliest_from([write.ended_ns for write in writes])
    for op in ops:
        if op.kind == "read":
            found = by_revision.get(op.revision)
            if found is None or found.value != op.value or found.began_ns > op.ended_ns:
                raise Illegal(f"{op}: nobody wrote that")
            if ended_ns[bisect_right(revisions, op.revision)] < op.began_ns:
                raise Illegal(f"{op}: it was overwritten before the read began")
        elif op.kind == "conflict" and began_ns[bisect_right(revisions, op.based_on)] > op.ended_ns:
            raise Illegal(f"{op}: nobody was faster")


def _earliest_from(times_ns: list[int]) -> list[int]:
    """For each position the earliest of the times from there on; never, after the last one."""
    return list(accumulate([NEVER, *reversed(times_ns)], min))[::-1]


def body(key: str, value: int, revision: int) -> dict[str, Any]:
    metadata = {"name": key} | ({"resourceVersion": str(revision)} if revision else {})
    return {"metadata": metadata, "data": {"value": str(value)}}


def noted(kind: str, key: str, began_ns: int, based_on: int, status: int, answer: dict[str, Any]) -> Op:
    if status == 409:
        return Op("conflict", key, began_ns, time.monotonic_ns(), based_on, 0, 0)
    if status not in (200, 201):
        raise Illegal(f"{kind} of {key}: {status} {answer}")
    revision, value = int(answer["metadata"]["resourceVersion"]), int(answer["data"]["value"])
    return Op(kind, key, began_ns, time.monotonic_ns(), based_on, revision, value)


def run_in_process(folder: Path, ops: int, seed: int = 1) -> list[Op]:
    """Against the server's own entrance, on a real disk, in one event loop."""
    history: list[Op] = []

    async def work() -> None:
        journal = Journal.open(folder)
        store = journal.load()
        endpoint = APIServer(Embedded(store=store, namespace="").api)
        committer = Committer(store, journal, publish=endpoint.publish)
        endpoint.attach(committer)

        async def ask(method: str, path: str, sent: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
            headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
            data = b"" if sent is None else msgspec.json.encode(sent)
            answer = await endpoint.answer(ServerRequest(method, path, "", headers, data))
            assert isinstance(answer, ServerResponse)
            return answer.status, msgspec.json.decode(answer.body)

        await ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        for number in range(KEYS):
            began_ns = time.monotonic_ns()
            history.append(
                noted("write", f"k{number}", began_ns, 0, *await ask("POST", MAPS, body(f"k{number}", 0, 0)))
            )

        async def writer(number: int) -> None:
            chance = random.Random(seed * 100 + number)
            while len(history) < ops:
                key = f"k{chance.randrange(KEYS)}"
                began_ns = time.monotonic_ns()
                read = noted("read", key, began_ns, 0, *await ask("GET", f"{MAPS}/{key}"))
                history.append(read)
                await asyncio.sleep(0)  # another client may write in between
                began_ns = time.monotonic_ns()
                sent = body(key, read.value + 1, read.revision)
                history.append(noted("write", key, began_ns, read.revision, *await ask("PUT", f"{MAPS}/{key}", sent)))

        await asyncio.gather(*(writer(number) for number in range(WRITERS)))
        await committer.close()

    asyncio.run(work())
    return history


class Swapper(threading.Thread):
    def __init__(self, client: Client, ends_s: float, seed: int) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._ends_s = ends_s
        self._chance = random.Random(seed)
        self.history: list[Op] = []
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while time.monotonic() < self._ends_s:
                key = f"k{self._chance.randrange(KEYS)}"
                began_ns = time.monotonic_ns()
                read = noted("read", key, began_ns, 0, *self._client.ask("GET", f"{MAPS}/{key}"))
                self.history.append(read)
                began_ns = time.monotonic_ns()
                sent = body(key, read.value + 1, read.revision)
                answer = self._client.ask("PUT", f"{MAPS}/{key}", sent)
                self.history.append(noted("write", key, began_ns, read.revision, *answer))
        except BaseException as problem:
            self.problem = problem
        finally:
            self._client.close()


def run_over_http(
    root: Path, seconds: float, longest_pause_s: float, seed: int = 1, report: Callable[[int], None] = lambda done: None
) -> tuple[list[Op], int]:
    """Against a process that is stopped and continued at random; returns the history and the number of pauses."""
    chance = random.Random(seed)
    pauses = 0
    with Target(root / "data").start() as cluster:
        first = Client(cluster)
        history: list[Op] = []
        for number in range(KEYS):
            began_ns = time.monotonic_ns()
            history.append(
                noted("write", f"k{number}", began_ns, 0, *first.ask("POST", MAPS, body(f"k{number}", 0, 0)))
            )
        first.close()
        ends_s = time.monotonic() + seconds
        swappers = [Swapper(Client(cluster), ends_s, seed * 100 + number) for number in range(WRITERS)]
        for swapper in swappers:
            swapper.start()
        while time.monotonic() < ends_s:
            time.sleep(chance.uniform(0.05, 0.5))  # when the pause comes is left to chance
            cluster.process.send_signal(signal.SIGSTOP)
            time.sleep(min(chance.uniform(0.1, longest_pause_s), max(ends_s - time.monotonic(), 0.1)))
            cluster.process.send_signal(signal.SIGCONT)
            pauses += 1
            report(sum(len(swapper.history) for swapper in swappers))
        for swapper in swappers:
            swapper.join(120)
            if swapper.problem is not None:
                raise swapper.problem
            history += swapper.history
        assert cluster.stop()[0] == 0
    return history, pauses
