"""The checks that Helm makes of `configuration` and `extraArgs` know all fields, rules and options of `headgate run`.
They refuse nothing that Headgate accepts. `tests/real/test_helm_values.py` runs them in Helm."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tools import chart_schema
from tools.chart_schema import RULES, UNCHECKED, argument_check, configuration_schema

from headgate.cli.commands.run import command
from headgate.cli.configuration.decoder import CHECKS, validate_duration
from headgate.cli.configuration.install_values import REFUSED_ARGUMENTS, REFUSED_FIELDS
from headgate.cli.configuration.types import schema_fields
from headgate.cli.options.address import parse_address
from headgate.install.deployment import run_arguments
from headgate.install.options import FEATURE_GATES
from headgate.install.template import Text, When
from headgate.kube.feature_gates import GATES, parse_feature_gates
from headgate.runtime.webhooks.target import parse_service

MAY_BE_REPEATED = {"--config", FEATURE_GATES}
"""Files of other kinds, and feature gates: the check of `gatePolicies` reads them."""


def test_every_rule_of_the_decoder_is_written_for_helm_or_listed_as_unchecked() -> None:
    assert CHECKS.keys() <= RULES.keys() | UNCHECKED.keys()
    assert REFUSED_FIELDS.keys() <= RULES.keys()
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
    for parameter in command.get_params(click.Context(command)):
        for name in (*parameter.opts, *parameter.secondary_opts):
            assert f'"{name}"' in written, name


def test_every_argument_that_the_installation_sets_is_refused_in_extra_args() -> None:
    ours = {_flag_of(each) for each in run_arguments() if _flag_of(each).startswith("--")}
    assert {"--components", "--log-level", "--webhook-listen"} <= ours
    assert ours - MAY_BE_REPEATED <= REFUSED_ARGUMENTS.keys()


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


@given(st.text("ab/:0189[]", max_size=9))
@example("[::1]:80")
@example("ns/name:444")
def test_addresses_and_services_that_headgate_accepts_match_the_patterns(text: str) -> None:
    if not isinstance(parse_address("", text, ""), str):
        assert _matches((chart_schema.ADDRESS,), text)
    if not isinstance(parse_service(text), str):
        assert _matches((chart_schema.SERVICE,), text)


@given(st.lists(st.sampled_from([*(each.name for each in GATES), "Foo", "", " ", "=", "true", "0", ","])).map("".join))
@example("GateOwnership=true, GangAtomicUngate=F,")
@example("ReservationLease=maybe")
@example("ReservationLease")
def test_the_pattern_of_feature_gates_is_that_of_the_option(text: str) -> None:
    read = parse_feature_gates(text)
    is_disagreement = isinstance(read, str) and "both" in read
    assert _matches((chart_schema.GATE_LIST,), text) == (not isinstance(read, str) or is_disagreement)
