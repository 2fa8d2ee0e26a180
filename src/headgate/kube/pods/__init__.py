"""Facts about pods that engines need: requests, termination, equality, templates."""
