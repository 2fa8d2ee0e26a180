"""Runs hollow kubelets and autoscaler models: watches, timers and writes."""
