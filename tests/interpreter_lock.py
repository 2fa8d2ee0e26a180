"""How long a piece of work keeps all other threads waiting for the interpreter lock.

A single call into C holds the lock until it returns. What is measured is the CPU time that the working thread uses
between two moments at which another thread runs, at the most. An observer that gets no core for a while sees the same,
so :func:`is_shared` takes the least of some runs: work that really holds the lock exceeds the bound in all of them.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import garbage_collector

SWITCH_S = 0.001
"""What ``headgate up`` sets: after this time the lock is asked for."""
TICK_S = 0.001
_ROUNDS = 5


class Observer:
    """Asked again and again by a thread that shares the lock with the one that works."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._clock = 0
        self._before_s = 0.0

    def look(self, worker: int | None) -> None:
        """``worker`` is the identity of the thread that works, if it runs by now."""
        if self._clock:
            now_s = time.clock_gettime(self._clock)
            self.longest_s, self._before_s = max(self.longest_s, now_s - self._before_s), now_s
        elif worker is not None:
            self._clock = time.pthread_getcpuclockid(worker)
            self._before_s = time.clock_gettime(self._clock)


@contextmanager
def short_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def is_shared(bound_s: float, measure: Callable[[], float]) -> bool:
    """Whether one of some runs holds the lock for less than the bound."""
    with short_turns():
        return any(_measure_alone(measure) < bound_s for _ in range(_ROUNDS))


def _measure_alone(measure: Callable[[], float]) -> float:
    """Without the objects that an earlier run has left."""
    with garbage_collector.without_earlier_objects():
        return measure()


def longest_s(act: Callable[[], object]) -> float:
    """``act`` runs in a thread of its own."""
    done, may_end = threading.Event(), threading.Event()

    def run() -> None:
        act()
        done.set()
        may_end.wait()

    worker, observer = threading.Thread(target=run), Observer()
    worker.start()
    while not done.is_set():
        observer.look(worker.ident)
        time.sleep(TICK_S)
    may_end.set()
    worker.join()
    return observer.longest_s
