"""Rules for jobs, pods and templates that use queues."""
