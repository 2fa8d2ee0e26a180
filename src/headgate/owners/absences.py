"""Owners that are known not to exist. A uid never comes back, so what is remembered here stays true.

Bounded: the least recently used is forgotten, and asking the server again is all that costs.
"""

from __future__ import annotations

from typing import Final

from headgate.owners.graph import Claim

_MOST: Final = 2000


class Absences:
    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._claims: Final[dict[Claim, None]] = {}

    def add(self, claim: Claim) -> None:
        self._claims.pop(claim, None)
        self._claims[claim] = None
        if len(self._claims) > self._most:
            del self._claims[next(iter(self._claims))]

    def __contains__(self, claim: Claim) -> bool:
        if claim not in self._claims:
            return False
        self.add(claim)
        return True
