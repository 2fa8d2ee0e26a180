"""Measurements. ``make bench`` runs them all; each prints one table and says what was measured and on what."""
