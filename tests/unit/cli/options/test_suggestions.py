"""Errors about commands, options and values that do not exist name the most similar one."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from headgate.cli.main import main


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["queus"], "No such command 'queus'. Did you mean 'queues'?"),
        (["gates", "lst"], "No such command 'lst'. Did you mean 'list'?"),
        (["config", "chek"], "No such command 'chek'. Did you mean 'check'?"),
        (["queues", "--outputt", "json"], "Did you mean '--output'?"),
        (["queues", "-o", "jsno"], "'jsno' is not one of 'table', 'wide', 'json', 'yaml', 'name'."),
        (["queues", "-o", "jsno"], "Did you mean 'json'?"),
        (["workloads", "--status", "admited"], "Did you mean 'admitted'?"),
        (["--log-level", "warn", "version"], "Did you mean 'warning'?"),
    ],
)
def test_the_most_similar_name_is_suggested(typed: list[str], expected: str) -> None:
    done = CliRunner().invoke(main, typed)
    assert (done.exit_code, expected in done.output) == (2, True), done.output


@pytest.mark.parametrize("typed", [["zzzzz"], ["queues", "-o", "0000"]])
def test_nothing_is_suggested_if_nothing_is_similar(typed: list[str]) -> None:
    done = CliRunner().invoke(main, typed)
    assert (done.exit_code, "Did you mean" in done.output) == (2, False), done.output
