"""A number, or a percentage of one: ``maxSurge``, ``maxUnavailable``, ``minAvailable``.

What the API lets pass is ``kube/validation/``'s business; a text that is no percentage has no value here.
"""

from __future__ import annotations

from headgate.kube.integers import read_natural


def share_of(value: int | str | None, total: int, *, round_up: bool) -> int | None:
    """``value`` itself, or that many hundredths of ``total``; ``None`` for what is neither, nothing is nought."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    hundreds = read_natural(digits)
    if digits == value or hundreds is None:
        return None
    hundredths = hundreds * total
    return -(-hundredths // 100) if round_up else hundredths // 100
