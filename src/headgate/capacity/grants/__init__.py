"""Which pods and groups are granted capacity, in which order, and why others wait."""
