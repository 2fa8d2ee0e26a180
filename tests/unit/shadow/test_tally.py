"""The counts of shadow mode as metrics, and as the table at its end."""

from __future__ import annotations

from headgate.shadow.comparison import OUTCOMES, DecisionComparison, Outcome
from headgate.shadow.tally import MAX_DIFFERENCES, ShadowTally


def a_comparison(outcome: Outcome, name: str = "a") -> DecisionComparison:
    return DecisionComparison(
        outcome=outcome,
        component="quota",
        decision="admission",
        kind="Workload",
        namespace="ns",
        name=name,
        other="admitted",
        headgate="waits",
        message="no quota",
        instead=("ns/b",),
    )


def test_the_metrics_count_decisions_open_decisions_and_refused_writes() -> None:
    tally = ShadowTally()
    tally.attach("quota", lambda: {"admission": 3, "eviction": 0})
    for outcome in ("same", "same", "only_other"):
        tally.count(a_comparison(outcome))
    page = tally.page().decode()
    assert 'headgate_shadow_decisions_total{component="quota",decision="admission",outcome="same"} 2' in page
    assert 'headgate_shadow_open_decisions{component="quota",decision="admission"} 3' in page
    assert 'headgate_shadow_refused_writes_total{verb="any"} 0' in page


def test_the_summary_has_a_row_for_each_outcome_and_a_sentence_for_each_difference() -> None:
    tally = ShadowTally()
    for outcome in OUTCOMES:
        tally.count(a_comparison(outcome))
    lines = tally.summary(90)
    assert lines[0] == f"shadow mode: compared {len(OUTCOMES)} decisions in 90s"
    assert lines[1].split() == ["component", "decision", "outcome", "count"]
    assert [line.split()[2] for line in lines[2 : 2 + len(OUTCOMES)]] == list(OUTCOMES)
    assert lines[-2].startswith("  other_victims: admission of Workload ns/a: the other: admitted; Headgate: waits")
    assert lines[-2].endswith("(no quota); Headgate would admit instead: ns/b")
    assert lines[-1] == "refused writes: 0"


def test_a_refused_write_is_named_as_a_defect() -> None:
    tally = ShadowTally()
    tally.refused_writes["PATCH"] += 1
    assert tally.summary(1)[-1] == "refused writes: 1, which is a defect: report it"


def test_only_the_latest_differences_are_kept() -> None:
    tally = ShadowTally()
    for number in range(MAX_DIFFERENCES + 5):
        tally.count(a_comparison("only_other", f"w{number}"))
    assert len(tally.differences) == MAX_DIFFERENCES
    assert tally.differences[-1].name == f"w{MAX_DIFFERENCES + 4}"
    assert tally.total("only_other") == MAX_DIFFERENCES + 5


def test_missing_rights_are_in_the_summary() -> None:
    lines = ShadowTally().summary(1, ["pods is forbidden"])
    assert lines[-3:] == [
        "missing rights: 1; what they hide was not compared",
        "  pods is forbidden",
        "refused writes: 0",
    ]
