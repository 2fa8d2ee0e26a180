"""Whether a component is well, and what it measures, for probes and for Prometheus: a few paths over plain HTTP."""
