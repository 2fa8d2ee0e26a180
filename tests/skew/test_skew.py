"""Replicas and webhooks with different options: the table of docs/production-readiness.md, row by row.

In every row and column, what was promised stays promised, nothing is started twice, and when the replicas agree again
everything runs to its end and no capacity is leaked. The cells say what users see meanwhile.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headgate.cli.commands.run import command
from headgate.kube.feature_gates import GATES
from headgate.runtime.webhooks.configurations import MUTATING, VALIDATING, desired_webhooks
from skew.cluster import DRAIN_S, SOON_S, TARGET, SkewedCluster
from skew.job_scenarios import JOB_SCENARIOS
from skew.queue_scenarios import QUEUE_SCENARIOS
from skew.scenario import SITUATIONS, Scenario, Situation

SCENARIOS = (*QUEUE_SCENARIOS, *JOB_SCENARIOS)
PAGE = (Path(__file__).parents[2] / "docs" / "production-readiness.md").read_text()
STAYS_OFF = "stays off"
NOTHING_LEFT = "nothing is left"
ROLLED_BACK = Situation(STAYS_OFF, begins_on=True, changes_leader=True, ends_on=False)


def table(first_cell: str) -> dict[str, dict[str, str]]:
    """The table of the page whose header begins with this cell: by the first cell of a row, its cells by column."""
    lines = PAGE.partition(f"\n| {first_cell} |")[2].splitlines()
    header = [first_cell, *_cells(f"|{lines[0]}")]
    rows = []
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        rows.append(_cells(line))
    return {cells[0]: dict(zip(header, cells, strict=True)) for cells in rows}


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


TABLE = table("option")


def differ(scenario: Scenario, situation: Situation) -> SkewedCluster:
    """The replicas begin to differ, and users go on. No promise is lost."""
    cluster = situation.begin(scenario)
    scenario.before(cluster)
    promised = cluster.promises()
    situation.differ(cluster, scenario)
    assert scenario.revokes or cluster.lost_promises(promised) == []
    scenario.during(cluster)
    return cluster


def agree(cluster: SkewedCluster, scenario: Scenario, situation: Situation) -> str:
    """The replicas agree, and everything ends. Returns what users had to do; empty if nothing was left."""
    situation.agree(cluster, scenario)
    scenario.release(cluster)
    may_be_left = bool(scenario.remedy) and not situation.ends_on
    left = cluster.drain(SOON_S if may_be_left else DRAIN_S)
    if left:
        assert may_be_left, f"stranded: {left}"
        scenario.clean_up(cluster)
    assert cluster.drain() == []
    cluster.created(*scenario.whole(cluster))
    assert cluster.drain() == [], "capacity is leaked"
    cluster.check_quota(*scenario.allowed)
    return scenario.remedy if left else ""


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.title)
@pytest.mark.parametrize("make", SCENARIOS, ids=lambda make: make.__name__)
def test_replicas_that_differ_strand_lose_and_repeat_nothing(make: type[Scenario], situation: Situation) -> None:
    scenario = make()
    cluster = differ(scenario, situation)
    outcome = scenario.outcome(cluster)
    cluster.check_quota(*scenario.allowed)
    agree(cluster, scenario, situation)
    assert TABLE[scenario.title][situation.title] == outcome


@pytest.mark.parametrize("make", [each for each in SCENARIOS if each.remedy], ids=lambda make: make.__name__)
def test_an_option_that_stays_off_leaves_what_the_page_says(make: type[Scenario]) -> None:
    scenario = make()
    assert agree(differ(scenario, ROLLED_BACK), scenario, ROLLED_BACK) == scenario.remedy


def test_the_page_says_what_is_left_when_an_option_stays_off() -> None:
    """Of the other options nothing is left: two columns end with all replicas off, and nothing waits then."""
    assert {title: row[STAYS_OFF] for title, row in TABLE.items()} == {
        make.title: make.remedy or NOTHING_LEFT for make in SCENARIOS
    }


def _has_other_entries(make: type[Scenario]) -> bool:
    return any(
        desired_webhooks(each, make.on.settings_of_webhooks(), TARGET, b"")
        != desired_webhooks(each, make.off.settings_of_webhooks(), TARGET, b"")
        for each in (MUTATING, VALIDATING)
    )


@pytest.mark.parametrize("registers_on", [True, False], ids=["registered on", "registered off"])
@pytest.mark.parametrize(
    "make", [each for each in SCENARIOS if _has_other_entries(each)], ids=lambda make: make.__name__
)
def test_a_replica_that_serves_the_entries_of_another_refuses_only_kinds_that_it_does_not_know(
    make: type[Scenario], registers_on: bool
) -> None:
    scenario = make()
    registered, serving = (scenario.on, scenario.off) if registers_on else (scenario.off, scenario.on)
    cluster = SkewedCluster(registered, serving, scenario.on)
    if registers_on and scenario.refuses_others:
        with pytest.raises(AssertionError, match="failed calling webhook"):
            scenario.before(cluster)
        return
    scenario.before(cluster)
    scenario.during(cluster)


@pytest.mark.parametrize(
    "make", [each for each in SCENARIOS if each.has_trace is not Scenario.has_trace], ids=lambda make: make.__name__
)
def test_a_feature_that_is_off_leaves_no_trace(make: type[Scenario]) -> None:
    for replica in (make.on, make.off):
        scenario, cluster = make(), SkewedCluster(replica, replica, replica)
        scenario.before(cluster)
        scenario.during(cluster)
        assert scenario.has_trace(cluster) == (replica is make.on)


def test_the_table_has_no_other_rows() -> None:
    assert [*TABLE] == [make.title for make in SCENARIOS]


def test_every_option_is_in_the_table_or_in_the_list_of_options_that_cannot_strand_anything() -> None:
    """Options of ``headgate run`` and feature gates. The page says of each of the others why it cannot."""
    others = {name for cell in table("other options") for name in re.findall(r"`([^` ]+)`", cell)}
    named = {word for title in TABLE for cell in re.findall(r"`([^`]+)`", title) for word in cell.split()}
    options = {max(option.opts, key=len) for option in command.params} - {"--help"}
    gates = {gate.name for gate in GATES}
    assert named & (options | gates) | others == options | gates
    assert not named & others
