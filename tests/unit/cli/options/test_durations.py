"""Times on the command line: one syntax, and bounds."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from headgate.cli.main import main
from headgate.cli.options.durations import read_seconds


def test_days_hours_minutes_and_seconds() -> None:
    assert [read_seconds(text) for text in ("7d", "1d12h", "1.5h", "90s")] == [604_800, 129_600, 5400, 90]
    assert read_seconds("0s", allows_zero=True) == 0


@pytest.mark.parametrize("text", ["", "7", "h", "-1h", "infd", "nand", "1e3s", "0s", "0d0h", "36501d", "9" * 400 + "d"])
def test_other_texts_are_refused(text: str) -> None:
    assert isinstance(read_seconds(text), str)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--shadow", "--for"],
        ["record", "f.hgr", "--for"],
        ["audit", "--watch", "--for"],
        ["simulate", "--generate", "helios", "--until"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("text", ["0s", "infd", "40000d"])
def test_every_command_refuses_a_time_that_is_0_or_too_long(words: list[str], text: str) -> None:
    result = CliRunner().invoke(main, [*words, text, *(["--kubeconfig", "none"] if words[0] != "simulate" else [])])
    assert result.exit_code == 2
    assert f"{text}: write a time" in " ".join(result.output.split())


@pytest.mark.parametrize("text", ["nan", "inf", "0", "-1", "1e9"])
def test_a_number_of_days_is_finite(text: str) -> None:
    result = CliRunner().invoke(main, ["simulate", "--generate", "helios", "--days", text])
    assert result.exit_code == 2
    assert "is not a number of days" in result.output
