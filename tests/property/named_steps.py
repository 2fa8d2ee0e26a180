"""Random steps of a simulation: a name, and the arguments that belong to it.

The strategy of each name is built once. A strategy that is built while an example is drawn makes hypothesis compute its
properties for each step, which takes a quarter of the time of these tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st


def named_steps(
    names: Sequence[str], arguments: Mapping[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[tuple[str, Any]]:
    """``names`` may contain a name several times, so that it is drawn more often."""
    strategies = {name: st.tuples(st.just(name), arguments[name]) for name in names}
    return st.sampled_from(names).flatmap(strategies.__getitem__)
