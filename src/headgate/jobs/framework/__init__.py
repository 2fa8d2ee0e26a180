"""The job framework: from a job to its Workload, and from an admission back to the job."""
