"""`headgate run --shadow` beside Kueue's own scheduler on random clusters: it reports the documented differences, no
other, and writes nothing, which the audit log of the API server shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from real.shadow_differences import DOCUMENTED, documented_name
from real.shadow_run import ACCOUNT, ShadowRun, running_shadow

pytestmark = pytest.mark.real

SEED = 8
WORLDS = 40
STEPS = 9
READS = {"get", "list", "watch"}


@pytest.fixture(scope="module")
def run(kube_binaries: Path, kueue_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShadowRun]:
    with running_shadow(tmp_path_factory.mktemp("shadow"), kube_binaries, kueue_binaries, SEED, WORLDS) as found:
        found.perform(STEPS)
        found.finish()
        yield found


def test_nothing_is_written(run: ShadowRun) -> None:
    requests = run.server.requests(ACCOUNT)
    assert requests["watch workloads"] > 0, "the shadow has read"
    assert {each.split()[0] for each in requests} <= READS, requests
    assert not run.server.refusals(ACCOUNT)
    assert "refused writes: 0" in run.summary


def test_every_difference_is_documented(run: ShadowRun) -> None:
    unknown = [each for each in run.compared if each["msg"] == "differs" and not documented_name(each, run)]
    assert not unknown, "\n".join(map(str, unknown))


def test_no_documented_difference_occurs_more_than_twice_as_often_as_in_the_recorded_runs(run: ShadowRun) -> None:
    met = Counter(documented_name(each, run) for each in run.compared if each["msg"] == "differs")
    assert {each.name: met[each.name] for each in DOCUMENTED if met[each.name] > each.at_most} == {}, met


def test_every_admission_was_compared(run: ShadowRun) -> None:
    compared = {each["name"] for each in run.compared if each["decision"] == "admission"}
    assert run.admitted - compared == set()


def test_the_worlds_were_worth_the_while(run: ShadowRun) -> None:
    outcomes = run.outcomes()
    assert outcomes["admission same"] > 100
    assert outcomes["eviction same"] > 3


def test_the_summary_has_a_table(run: ShadowRun) -> None:
    assert f"compared {len(run.compared)} decisions" in run.summary
    assert "component" in run.summary
