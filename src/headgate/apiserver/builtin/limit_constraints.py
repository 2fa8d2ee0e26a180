"""One limit of a LimitRange against amounts that somebody asks for: minimum, maximum, ratio of limit to request.

Amounts are compared in thousandths where 64 bits hold them, else in whole units, as the real server does: half of a
thousandth more than the maximum is still the maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from headgate.apiserver.builtin.attributes import Object
from headgate.kube import quantity
from headgate.kube.pods.resources import Amounts
from headgate.kube.quantity import Quantity

_MAX_MILLI: Final = (2**63 - 1) // 1000

Check = Callable[[str, str, Quantity, "Quantity | None", "Quantity | None"], "str | None"]
Checks = tuple[tuple[str, Check], ...]


class Bounds:
    """The bounds of one limit, asked about one container after the other.

    Each check complains of a resource that is neither requested nor limited, in the same words for every container.
    That is told once: a limit may have as many resources as a pod has containers, and they are not compared in pairs.
    """

    def __init__(self, limit: Object) -> None:
        self._scope: Final = limit.get("type") or ""
        self._bounds: Final[dict[str, dict[str, Quantity]]] = {
            field: {name: quantity.amount(text) for name, text in sorted((limit.get(field) or {}).items())}
            for field in ("min", "max", "maxLimitRequestRatio")
        }
        self._untold: Final = {field: dict.fromkeys(bounds) for field, bounds in self._bounds.items()}

    def usage_problems(self, requests: Amounts, limits: Amounts) -> Iterator[str]:
        """What containers and pods do wrong: they have requests and limits."""
        return self._problems(_OF_USAGE, requests, limits)

    def claim_problems(self, requests: Amounts) -> Iterator[str]:
        """What claims do wrong: they only request."""
        return self._problems(_OF_CLAIMS, requests, {})

    def _problems(self, checks: Checks, requests: Amounts, limits: Amounts) -> Iterator[str]:
        given = requests.keys() | limits.keys()
        for field, check in checks:
            bounds, untold = self._bounds[field], self._untold[field]
            missing = [name for name in untold if name not in given]
            for name in missing:
                del untold[name]
            for name in sorted((*missing, *(each for each in given if each in bounds))):
                problem = check(name, self._scope, bounds[name], requests.get(name), limits.get(name))
                if problem is not None:
                    yield problem


def _comparable(*amounts: Quantity | None) -> list[int]:
    """At one precision for all; what is missing is zero."""
    units = [0 if each is None else each.value() for each in amounts]
    if any(each > _MAX_MILLI for each in units):
        return units
    return [0 if each is None else each.milli_value() for each in amounts]


def _minimum(name: str, scope: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str | None:
    asked, capped, least = _comparable(request, limit, bound)
    lead = f"minimum {name} usage per {scope} is {bound}"
    if request is None:
        return f"{lead}.  No request is specified"
    if asked < least:
        return f"{lead}, but request is {request}"
    if limit is not None and capped < least:
        return f"{lead}, but limit is {limit}"
    return None


def _maximum(name: str, scope: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str | None:
    asked, capped, most = _comparable(request, limit, bound)
    lead = f"maximum {name} usage per {scope} is {bound}"
    if limit is None:
        return f"{lead}.  No limit is specified"
    if capped > most:
        return f"{lead}, but limit is {limit}"
    if request is not None and asked > most:
        return f"{lead}, but request is {request}"
    return None


def _maximum_request(
    name: str, scope: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str | None:
    asked, most = _comparable(request, bound)
    lead = f"maximum {name} usage per {scope} is {bound}"
    if request is None:
        return f"{lead}.  No request is specified"
    return f"{lead}, but request is {request}" if asked > most else None


def _ratio(name: str, scope: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str | None:
    asked, capped, _ = _comparable(request, limit, bound)
    lead = f"{name} max limit to request ratio per {scope} is {bound}"
    if not asked:
        return f"{lead}, but no request is specified or request is 0"
    if not capped:
        return f"{lead}, but no limit is specified or limit is 0"
    ratio = capped / asked
    exact = bound.value() <= _MAX_MILLI
    too_high = ratio * 1000 > bound.milli_value() if exact else ratio > bound.value()
    return f"{lead}, but provided ratio is {ratio:f}" if too_high else None


_OF_USAGE: Final[Checks] = (("min", _minimum), ("max", _maximum), ("maxLimitRequestRatio", _ratio))
_OF_CLAIMS: Final[Checks] = (("min", _minimum), ("max", _maximum_request))
