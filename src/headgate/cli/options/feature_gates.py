"""The option ``--feature-gates``, for all commands that have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from headgate.kube.feature_gates import DEFAULTS, FeatureGates, contradiction, gate_values, parse_feature_gates

F = TypeVar("F", bound=Callable[..., Any])

_GATES: Final = "; ".join(f"{name}={str(on).lower()}" for name, on in gate_values(DEFAULTS).items())


def _read(context: click.Context, parameter: click.Parameter, value: str) -> FeatureGates:
    features = parse_feature_gates(value)
    if isinstance(features, str):
        raise click.BadParameter(features)
    problem = contradiction(features)
    if problem:
        raise click.BadParameter(problem)
    return features


def feature_gates_option(command: F) -> F:
    """The command gets ``features``."""
    return click.option(
        "--feature-gates",
        "features",
        default="",
        callback=_read,
        metavar="A=true,B=false",
        help=f"Switch features on or off. They are: {_GATES}.",
    )(command)
