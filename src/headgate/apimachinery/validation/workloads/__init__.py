"""Validation of Jobs, Deployments and the other kinds that create pods."""
