"""The cost of a request grows no faster than the request, whatever part of it a client makes larger.

Costs are measured by `cost_growth.py`. Caches are empty, except for what the same request of the smallest size puts
into them: else only the first run would parse the texts of a request, and only the first names of a large one would be
in a cache.
"""

from __future__ import annotations

import random

import msgspec
import pytest

import lru_caches
from cost_growth import TIMES, cpu_s, too_steep
from embedded import Embedded
from headgate.apiserver.request.messages import Moment, ServerRequest, ServerResponse
from sized_kinds import CLUSTER, DEFINITIONS_AND_OBJECTS, PODS_AND_WORKLOADS
from sized_products import PRODUCTS
from sized_requests import BODIES, METADATA, QUERIES, Row

pytestmark = pytest.mark.measured

ROWS: dict[str, Row] = {
    **METADATA,
    **BODIES,
    **QUERIES,
    **PODS_AND_WORKLOADS,
    **DEFINITIONS_AND_OBJECTS,
    **CLUSTER,
    **PRODUCTS,
}


class _Server(Embedded):
    """Node ports and addresses are drawn, as the real endpoint does it."""

    _draw = random.Random(4711).randrange

    def moment(self) -> Moment:
        return msgspec.structs.replace(super().moment(), randrange=self._draw)


_CACHES = lru_caches.of_headgate()


def _prepared(row: Row, size: int) -> tuple[_Server, ServerRequest]:
    setup, request = row[1](size)
    server = _Server()
    for each in setup:
        answer = server.send(each)
        assert isinstance(answer, ServerResponse)
        assert answer.status < 300, answer.body
    return server, request


def _cost_s(row: Row, size: int) -> float:
    server, request = _prepared(row, size)
    for cache in _CACHES:
        cache.cache_clear()
    smallest, smallest_request = _prepared(row, 1)
    smallest.send(smallest_request)  # makes what is made once in a process, such as schemas
    answers: list[object] = []
    took = cpu_s(lambda: answers.append(server.send(request)))
    (answer,) = answers
    assert isinstance(answer, ServerResponse)
    assert answer.status < 500 or b"request is too large" in answer.body, answer.body
    return took


@pytest.mark.parametrize("name", ROWS)
def test_a_request_of_eight_times_the_size_costs_about_eight_times_as_much(name: str) -> None:
    row = ROWS[name]
    size = row[0]
    assert not too_steep(lambda: _cost_s(row, size), lambda: _cost_s(row, TIMES * size))
