"""Runs the gate controller: watches, its timer, and the removals of gates."""
