"""Admissions that the server would not have: how long others go first, and the Event that says why.

A webhook that is down or a schema that knows better refuses one workload again and again. What was promised to it is
free for others meanwhile, and it is tried again, later each time.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.owners.effects import Emit
from headgate.owners.families.pods import about
from headgate.quota.serving.writing import COMPONENT, KIND

Object = dict[str, Any]

REASON: Final = "AdmissionRefused"
_MOST_S: Final = 60.0
_MOST_TEXT: Final = 1024


class Refusals:
    def __init__(self) -> None:
        self._counts: Final[dict[str, int]] = {}

    def wait_s(self, key: str) -> float:
        """After one more of them."""
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return float(min(2 ** min(count - 1, 10), _MOST_S))

    def forget(self, key: str) -> None:
        self._counts.pop(key, None)


def told(workload: Object, why: str) -> Emit:
    text = f"The server would not write down the admission: {why}"
    return Emit(about(workload, KIND), "Warning", REASON, text[:_MOST_TEXT], COMPONENT)
