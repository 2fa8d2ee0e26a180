"""Objects and random histories for the tests of recordings."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from headgate.recording.records import Record, RecordTable

Object = dict[str, Any]

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(0, 2) | st.text("ab", max_size=2)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("xyz", max_size=2), inner, max_size=4),
    max_leaves=12,
)
MAPS = st.dictionaries(st.text("xyz", max_size=2), VALUES, max_size=4)


def an_object(name: str, revision: int, uid: str = "", **fields: Any) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(revision)}
    return {"metadata": metadata, **fields}


def some_records(table: RecordTable, count: int) -> list[Record]:
    """Objects that are created, changed and deleted."""
    found: list[Record] = []
    for revision in range(1, count + 1):
        name = f"pod-{revision % 3}"
        if revision % 7 == 0:
            found += table.record_deletion("pods", "ns", name, revision, revision)
        else:
            spec = {"nodeName": f"node-{revision % 2}", "priority": revision}
            found += table.record_state("pods", an_object(name, revision, spec=spec), revision, observed=True)
    return found
