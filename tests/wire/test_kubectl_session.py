"""kubectl v1.35.8 against both servers: the same commands, the same exit codes, the same words.

Each chapter is a session in a namespace of its own.
"""

from __future__ import annotations

import pytest

from harness.kubectl_session import agree
from harness.server_pair import ServerPair, namespace_of
from wire.custom_kind_sessions import EXTENDING
from wire.imperative_sessions import IMPERATIVE
from wire.rbac_sessions import GRANTING
from wire.read_sessions import READING
from wire.write_sessions import WRITING

pytestmark = pytest.mark.real
CHAPTERS = {**READING, **WRITING, **IMPERATIVE, **GRANTING, **EXTENDING}


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_kubectl_session_reads_the_same(servers: ServerPair, name: str) -> None:
    agree(servers, f"kubectl: {name}", namespace_of(f"kubectl {name}"), CHAPTERS[name])
