"""Validation of built-in kinds, one module for each kind or group of kinds."""
