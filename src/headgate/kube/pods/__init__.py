"""Functions about pods that several packages use: requests, LimitRange defaults, termination, comparison of specs."""
