"""Every kind of harm that a mutation does to a clean history is found; a slow, independent checker (oracle) confirms
that it is harm."""

from __future__ import annotations

import random

import pytest

from headgate.audit.auditor import AuditSettings, audit
from unit.audit.drawn_histories import draw
from unit.audit.harms import HARMS, renumbered, with_tail
from unit.audit.slow_judge import broken_rules

SETTINGS = AuditSettings(stuck_s=3 * 3600.0, starved_s=3 * 3600.0)
CASES = 2
MAX_SEEDS = 60


@pytest.mark.parametrize("name", HARMS)
def test_a_kind_of_harm_is_found(name: str) -> None:
    harm, confirmed = HARMS[name], 0
    for seed in range(MAX_SEEDS):
        mutated = harm.mutate(draw(seed, 45), random.Random(seed))
        if mutated is None:
            continue
        history = with_tail(renumbered(mutated))
        broken = broken_rules(history, SETTINGS.stuck_s, SETTINGS.starved_s)
        if harm.rule not in broken:
            continue
        confirmed += 1
        found = audit(history, SETTINGS)
        assert found.unreadable == ()
        assert broken <= {each.rule for each in found.certain}, (name, seed)
        if confirmed == CASES:
            return
    assert confirmed, "no history was harmed in this way"


def test_there_are_at_least_thirty_kinds_of_harm() -> None:
    assert len(HARMS) >= 30


@pytest.mark.parametrize("seed", range(10))
def test_the_slow_judge_agrees_that_clean_histories_are_clean(seed: int) -> None:
    history = with_tail(renumbered(draw(seed)))
    assert broken_rules(history, SETTINGS.stuck_s, SETTINGS.starved_s) == set()
    assert audit(history, SETTINGS).findings == ()
