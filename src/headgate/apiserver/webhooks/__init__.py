"""Admission and conversion webhooks: their configuration, matching and responses."""
