"""Patches: JSON Patch, JSON Merge Patch and strategic merge patch. Server-side apply is ``kube/apply/``."""
