"""Nodes as a matrix, pods, and shapes: what the scheduler knows of the cluster while it places a pod."""
