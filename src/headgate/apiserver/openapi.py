"""Schemas as OpenAPI v3 documents."""

from __future__ import annotations

from headgate.apiserver.kinds.table import KindTable
from headgate.apiserver.messages import Request, Response
from headgate.kube.schema import Schemas


def answer(schemas: Schemas, kinds: KindTable, request: Request) -> Response | None:
    return None
