"""The webhook server, its certificates, and the webhook configurations that point to it."""
