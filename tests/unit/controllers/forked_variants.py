"""Runs every variant of a scenario without repeating its beginning: the process forks where a variant begins.

A child process runs the variant to the end of the scenario, inspects the result, sends it through a pipe and exits. The
parent waits for it and continues the undisturbed scenario. The world is created once, and a variant costs only what
follows the place where it begins.
"""

from __future__ import annotations

import gc
import os
import pickle
import traceback
import warnings
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")
UNDISTURBED = "undisturbed"


class ForkedVariants(Generic[T]):
    def __init__(self) -> None:
        self.title = UNDISTURBED
        self._found: dict[str, T] = {}
        self._pipe: int | None = None

    def begin(self, title: str) -> bool:
        """Starts a variant here: True in the child, which changes the scenario, False in the parent after its end."""
        if self._pipe is not None:
            return False  # a variant has no variants
        reading, writing = os.pipe()
        gc.freeze()  # a collection in the child would copy the pages of every object of the test run
        with warnings.catch_warnings():
            # Python 3.12 warns of other threads: xdist has one, and the child takes none of its locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            os.close(reading)
            self.title, self._pipe = title, writing
            return True
        gc.unfreeze()
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            result = pipe.read()
        os.waitpid(pid, 0)
        assert result, f"{title}: the process died"
        passed, value = pickle.loads(result)
        assert passed, f"{title}:\n{value}"
        self._found[title] = value
        return False

    def run(self, run_scenario: Callable[[], T]) -> dict[str, T]:
        """What ``run_scenario`` returned at the end of the undisturbed scenario and of each variant, by title."""
        try:
            value = run_scenario()
        except BaseException as trouble:
            if self._pipe is None:
                raise
            self._exit(self._pipe, (False, "".join(traceback.format_exception(trouble))))
        if self._pipe is not None:
            self._exit(self._pipe, (True, value))
        return {UNDISTURBED: value, **self._found}

    def _exit(self, pipe: int, result: tuple[bool, Any]) -> NoReturn:
        """Ends the child without the finalizers of the test run."""
        try:
            with os.fdopen(pipe, "wb") as writing:
                pickle.dump(result, writing)
        finally:
            os._exit(0)
