"""Prints update strategies in error messages: Go's field names, every field present (see ``go_values.py``)."""

from __future__ import annotations

from typing import Any

import msgspec

Object = dict[str, Any]


def _raw(value: Any) -> Any:
    return msgspec.Raw(msgspec.json.encode(value))


def _rolling(rolling: Object | None) -> Object | None:
    if rolling is None:
        return None
    return {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}


def deployment_strategy_value(strategy: Object) -> Any:
    """Also for DaemonSets."""
    return _raw({"Type": strategy.get("type", ""), "RollingUpdate": _rolling(strategy.get("rollingUpdate"))})


def _stateful(rolling: Object | None) -> Object | None:
    if rolling is None:
        return None
    return {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}


def stateful_rolling_update_value(rolling: Object) -> Any:
    return _raw(_stateful(rolling))


def stateful_set_strategy_value(strategy: Object) -> Any:
    return _raw({"Type": strategy.get("type", ""), "RollingUpdate": _stateful(strategy.get("rollingUpdate"))})
