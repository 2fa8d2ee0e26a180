"""Custom resources: definitions, their kinds, conversion between versions, status conditions."""
