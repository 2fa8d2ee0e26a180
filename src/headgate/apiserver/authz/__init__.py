"""Authorization: whether a user may perform a request (RBAC)."""
