"""Volcano's kinds as values: Queue, PodGroup, tasks, and the annotation that records a grant."""
