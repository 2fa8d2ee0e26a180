"""Headgate: gate-controlled queueing and scheduling for Kubernetes."""

__version__ = "0.2.0"
