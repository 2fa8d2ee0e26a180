"""Validation of the networking kinds: Services, EndpointSlices, Ingresses and others."""
