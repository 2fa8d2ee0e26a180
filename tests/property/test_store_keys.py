"""Sorted keys against a sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.store.resource_history import SortedKeys

texts = st.text(alphabet="ab/0", max_size=4)


@given(
    first=st.sets(texts, max_size=40),
    operations=st.lists(texts, max_size=120),
    run=st.integers(1, 3),
    start=texts,
    stop=st.none() | texts,
)
def test_sorted_keys_behave_like_a_sorted_list(
    first: set[str], operations: list[str], run: int, start: str, stop: str | None
) -> None:
    keys, model = SortedKeys.of(first, run), set(first)
    for text in operations:
        if text in model:
            model.remove(text)
            keys.remove(text)
        else:
            model.add(text)
            keys.add(text)
    assert len(keys) == len(model)
    assert list(keys.between(start, stop)) == sorted(k for k in model if k > start and (stop is None or k < stop))
    assert keys.rank(start) == sum(k < start for k in model)
