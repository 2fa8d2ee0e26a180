"""Why an object concerns Headgate that names no queue and has no annotation of its own: a namespace or a queue opts in,
or its namespace has a default queue; and which scheduling gates have a GatePolicy.

``admission_cache.py`` keeps it up to date; ``match_conditions.py`` derives from it which objects an API server asks
about.
"""

from __future__ import annotations

import msgspec


class ReviewScope(msgspec.Struct, frozen=True):
    """``opted_in_namespaces``: their annotation opts in to the queue gate. ``has_opted_in_queue``: so does that of a
    Queue. ``default_queue_namespaces``: they have a LocalQueue for jobs that name no queue. ``gates``: those that a
    GatePolicy names."""

    opted_in_namespaces: frozenset[str] = frozenset()
    has_opted_in_queue: bool = False
    default_queue_namespaces: frozenset[str] = frozenset()
    gates: frozenset[str] = frozenset()
