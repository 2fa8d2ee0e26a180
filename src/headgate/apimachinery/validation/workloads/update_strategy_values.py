"""Update strategies as error messages show them: with the names of Go's fields, and with empty fields.

``kube/validation/go_values.py`` explains this notation.
"""

from __future__ import annotations

from typing import Any

import msgspec

Object = dict[str, Any]


def _raw(value: Any) -> Any:
    return msgspec.Raw(msgspec.json.encode(value))


def _surge_rolling_update(rolling: Object | None) -> Object | None:
    if rolling is None:
        return None
    return {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}


def surge_strategy_value(strategy: Object) -> Any:
    """A strategy of a Deployment or a DaemonSet: its rolling update has ``maxUnavailable`` and ``maxSurge``."""
    return _raw(
        {"Type": strategy.get("type", ""), "RollingUpdate": _surge_rolling_update(strategy.get("rollingUpdate"))}
    )


def _partitioned_rolling_update(rolling: Object | None) -> Object | None:
    if rolling is None:
        return None
    return {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}


def stateful_rolling_update_value(rolling: Object) -> Any:
    return _raw(_partitioned_rolling_update(rolling))


def stateful_set_strategy_value(strategy: Object) -> Any:
    return _raw(
        {"Type": strategy.get("type", ""), "RollingUpdate": _partitioned_rolling_update(strategy.get("rollingUpdate"))}
    )
