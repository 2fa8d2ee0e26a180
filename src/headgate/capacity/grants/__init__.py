"""Which pods and groups are granted capacity, in which order, and why other pods wait."""
