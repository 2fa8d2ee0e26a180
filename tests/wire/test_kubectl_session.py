"""kubectl v1.35.8 against both servers: the same commands, the same exit codes, the same words.

Each chapter is a session in a namespace of its own.
"""

from __future__ import annotations

import pytest

from harness.both import Both, namespace_of
from harness.session import agree
from wire.extending import EXTENDING
from wire.granting import GRANTING
from wire.imperative import IMPERATIVE
from wire.reading import READING
from wire.writing import WRITING

pytestmark = pytest.mark.real
CHAPTERS = {**READING, **WRITING, **IMPERATIVE, **GRANTING, **EXTENDING}


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_kubectl_session_reads_the_same(both: Both, name: str) -> None:
    agree(both, f"kubectl: {name}", namespace_of(f"kubectl {name}"), CHAPTERS[name])
