"""Every command has an example in its ``--help``, and every example has commands, options and values that exist.

`tests/wire/test_help_examples.py` runs them.
"""

from __future__ import annotations

import shlex

import click
import pytest
from click.testing import CliRunner

from headgate.cli.main import main
from help_examples import commands, example_lines, examples, headgate_words

COMMANDS = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_well_and_has_an_example(name: str) -> None:
    done = CliRunner().invoke(main, [*name.split(), "--help"])
    assert done.exit_code == 0, done.output
    assert "Example:" in done.output
    assert example_lines(COMMANDS[name])


@pytest.mark.parametrize("line", examples())
def test_an_example_has_options_that_exist(line: str) -> None:
    command: click.Command = main
    words, ctx = shlex.split(line), click.Context(main, info_name="headgate")
    while isinstance(command, click.Group):
        found = command.get_command(ctx, words.pop(0))
        assert found is not None, line
        command, ctx = found, click.Context(found, parent=ctx, info_name=found.name)
    parser = command.make_parser(ctx)
    options, _, _ = parser.parse_args(args=list(words))
    for param in command.params:
        value = options.get(param.name or "")
        if isinstance(param.type, click.Choice) and isinstance(value, str):
            assert param.type.convert(value, param, ctx), line


def test_comments_and_pipes_are_not_part_of_an_example() -> None:
    assert headgate_words("headgate queues -o wide      more columns") == ["queues", "-o", "wide"]
    assert headgate_words("headgate queues -o json | jq '.queues[]'") == ["queues", "-o", "json"]
    assert headgate_words("headgate wait job/x --for finished && echo done") == ["wait", "job/x", "--for", "finished"]
    assert headgate_words("kubectl get nodes") == []
