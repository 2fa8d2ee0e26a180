"""Validation of Services, EndpointSlices, Ingresses and their relatives."""
