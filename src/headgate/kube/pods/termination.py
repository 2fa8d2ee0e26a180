"""When a terminating pod is overdue.

The API server sets a deletion timestamp to the end of the grace period. It has whole seconds,
and a pod that uses its whole grace period is removed shortly after it.
"""

from __future__ import annotations

from typing import Final

OVERDUE_AFTER_S: Final = 3.0
"""After this time since its deletion timestamp a terminating pod is overdue: nothing waits for it any more."""
MAX_TERMINATION_WAIT_S: Final = 600.0
"""The default of the longest time that quota waits for a terminating pod."""
