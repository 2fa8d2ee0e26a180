"""Admission by queue and removal of the queue gate."""
