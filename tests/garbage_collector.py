"""Measure CPU time without the garbage collector: its cost follows the objects of the whole test process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def switched_off() -> Iterator[None]:
    """Without a collection before: what is left from earlier costs nothing while the collector is off."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def without_earlier_objects() -> Iterator[None]:
    """The collector runs, and looks only at objects that are made from now on."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
