"""Runs the scheduler: watches, its timer, and the dispatcher of its API calls."""
