"""Builds controllers, the scheduler, webhooks and metrics for a command."""
