"""Profiles and plugin arguments from KubeSchedulerConfiguration and Volcano's configuration."""
