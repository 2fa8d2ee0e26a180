"""The webhook server: TLS, certificates, and the configuration objects that point to it."""
