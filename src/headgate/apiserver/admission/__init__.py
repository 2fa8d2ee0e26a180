"""Admission of one write: plugins, webhooks, quota and limits, in the order of kube-apiserver."""
