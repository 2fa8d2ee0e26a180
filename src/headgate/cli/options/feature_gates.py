"""The option ``--feature-gates``, for all commands that have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from headgate.kube.feature_gates import DEFAULTS, FeatureGates, contradiction, gate_values, parse_feature_gates

F = TypeVar("F", bound=Callable[..., Any])

_GATES: Final = "; ".join(f"{name}={str(on).lower()}" for name, on in gate_values(DEFAULTS).items())


def _read(context: click.Context, parameter: click.Parameter, value: str | FeatureGates) -> FeatureGates:
    """Gates of the command line override single gates of the configuration file, which are the option's default."""
    base = (context.default_map or {}).get(parameter.name or "", DEFAULTS)
    features = value if isinstance(value, FeatureGates) else parse_feature_gates(value, base)
    if isinstance(features, str):
        raise click.BadParameter(features)
    problem = contradiction(features)
    if problem:
        raise click.BadParameter(problem)
    return features


def feature_gates_option(command: F) -> F:
    """Adds the parameter ``features`` to a command."""
    return click.option(
        "--feature-gates",
        "features",
        type=click.UNPROCESSED,
        default="",
        callback=_read,
        metavar="A=true,B=false",
        help=f"Switch features on or off. They are: {_GATES}.",
    )(command)
