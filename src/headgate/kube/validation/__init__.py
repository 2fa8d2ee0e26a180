"""Validation rules that engines and the API server share: names, labels, metadata, taints."""
