"""When a terminating pod is overdue.

The API server sets a deletion timestamp to the moment at which the grace period is over. It is cut to whole seconds,
and a pod that uses all of its grace period is removed a moment after it.
"""

from __future__ import annotations

from typing import Final

OVERDUE_AFTER_S: Final = 3.0
"""A terminating pod is overdue so long after its deletion timestamp: nothing waits for it any more."""
MAX_TERMINATION_WAIT_S: Final = 600.0
"""Unless the installation says otherwise, quota waits so long for a pod that was told to end, and no longer."""
