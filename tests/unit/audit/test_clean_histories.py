"""Histories that break no rule raise no finding."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.audit.auditor import AuditSettings, audit
from unit.audit.drawn_histories import draw

STRICT = AuditSettings(stuck_s=7200.0)


@given(st.integers(0, 1_000_000))
@settings(max_examples=200)
def test_a_clean_history_raises_nothing(seed: int) -> None:
    result = audit(draw(seed), STRICT)
    assert result.findings == ()
    assert result.unreadable == ()
