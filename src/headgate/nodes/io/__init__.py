"""Performs what hollow kubelets and autoscaler models decide."""
