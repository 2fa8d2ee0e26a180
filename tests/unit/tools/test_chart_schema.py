"""The checks that Helm makes of `configuration` and `extraArgs` know all fields, rules and options of `headgate run`.
They refuse nothing that Headgate accepts. `tests/real/test_helm_values.py` runs them in Helm."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tools import chart_schema
from tools.chart_schema import RULES, UNCHECKED, argument_check, configuration_schema

from headgate.cli.commands.run import command
from headgate.cli.configuration.decoder import CHECKS, validate_duration
from headgate.cli.configuration.flags import FLAGS
from headgate.cli.configuration.install_values import ALLOWED_VALUES, REFUSED_ARGUMENTS, REFUSED_FIELDS
from headgate.cli.configuration.types import schema_fields
from headgate.install.deployment import run_arguments
from headgate.install.options import FEATURE_GATES
from headgate.install.template import Text, When
from headgate.kube.feature_gates import GATES, parse_feature_gates

REPOSITORY = Path(__file__).parents[3]
MAY_BE_REPEATED = {"--config", FEATURE_GATES}
"""Files of other kinds, and feature gates: the check of `gatePolicies` reads them."""


def test_every_rule_of_the_decoder_is_written_for_helm_or_listed_as_unchecked() -> None:
    assert CHECKS.keys() <= RULES.keys() | UNCHECKED.keys()
    assert set(ALLOWED_VALUES) <= set(REFUSED_FIELDS)
    for path in REFUSED_FIELDS:
        parent = next(each for each in RULES if path == each or path.startswith(f"{each}."))
        rule: Any = RULES[parent]
        for step in path.removeprefix(parent).strip(".").split("."):
            rule = rule["properties"][step] if step else rule
        assert rule["enum"] in ([None], [None, ALLOWED_VALUES.get(path)]), path
    assert RULES.keys() | UNCHECKED.keys() <= {each.path for each in schema_fields()}


def test_every_field_of_a_configuration_is_in_the_schema() -> None:
    schema = configuration_schema("")
    assert schema["additionalProperties"] is False
    for field in schema_fields():
        found: Any = schema
        for step in field.path.split("."):
            found = found["properties"][step]
        assert found["description"] == field.description
        assert "null" in found["type"] if "type" in found else None in found["enum"], field.path


def test_every_option_of_the_command_is_known_to_the_template() -> None:
    written = argument_check()
    names = [name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)]
    for name in (*names, "--help"):
        assert f'"{name}"' in written, name


def test_every_argument_that_the_installation_sets_is_refused_in_extra_args() -> None:
    ours = {_flag_of(each) for each in run_arguments() if _flag_of(each).startswith("--")}
    assert {"--components", "--log-level", "--webhook-listen"} <= ours
    assert ours - MAY_BE_REPEATED <= REFUSED_ARGUMENTS.keys()


def test_what_the_installation_sets_by_arguments_cannot_be_set_by_fields() -> None:
    """A field would have no effect: an argument wins over the file."""
    ours = {_flag_of(each) for each in run_arguments()} - MAY_BE_REPEATED
    assert {each.path for each in FLAGS if each.flag in ours} <= REFUSED_FIELDS.keys()


def _flag_of(argument: object) -> str:
    if isinstance(argument, When):
        return _flag_of(argument.value)
    first = argument.parts[0] if isinstance(argument, Text) else argument
    return first.partition("=")[0] if isinstance(first, str) else ""


def _matches(patterns: tuple[str, ...], text: str) -> bool:
    return all(re.search(each, text, re.ASCII) for each in patterns)


@given(st.text("0123456789.+-nuµmsh", max_size=8))
@example("-0s")
@example("1h2m3.5s")
@example("+.5m")
def test_durations_that_headgate_accepts_match_the_patterns(text: str) -> None:
    if not validate_duration(text, ""):
        assert _matches(chart_schema.DURATION, text)
    if not validate_duration(text, "", may_be_zero=True):
        assert _matches((chart_schema.DURATION_OR_ZERO,), text)


@pytest.mark.parametrize("text", ["", "5", "soon", "-5m", "0s", "0", "5 m", "5m!", "1.s.", "m"])
def test_texts_that_are_no_duration_above_zero_do_not_match(text: str) -> None:
    assert validate_duration(text, "")
    assert not _matches(chart_schema.DURATION, text)


@given(st.lists(st.sampled_from([*(each.name for each in GATES), "Foo", "", " ", "=", "true", "0", ","])).map("".join))
@example("GateOwnership=true, GangAtomicUngate=F,")
@example("ReservationLease=maybe")
@example("ReservationLease")
def test_the_pattern_of_feature_gates_is_that_of_the_option(text: str) -> None:
    read = parse_feature_gates(text)
    is_disagreement = isinstance(read, str) and "both" in read
    assert _matches((chart_schema.GATE_LIST,), text) == (not isinstance(read, str) or is_disagreement)


def test_the_check_of_arguments_does_not_depend_on_earlier_uses_of_the_command() -> None:
    """In a process of its own, because click keeps the first option for help."""
    used = "import click; from headgate.cli.commands.run import command as run; from tools import chart_schema\n"
    used += (
        "run.get_params(click.Context(run, help_option_names=['-h', '--help'])); print(chart_schema.argument_check())"
    )
    found = subprocess.run([sys.executable, "-c", used], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert found.stdout == argument_check() + "\n"
