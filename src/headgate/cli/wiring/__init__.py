"""Clients, controllers, the scheduler and metrics, put together for a command."""
