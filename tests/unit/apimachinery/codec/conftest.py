"""The committed tables, loaded once."""

from __future__ import annotations

import pytest

from headgate import schemas
from headgate.kube.schema import Schemas


@pytest.fixture(scope="session")
def tables() -> Schemas:
    return Schemas.load(schemas.read())
