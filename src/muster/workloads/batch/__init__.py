"""Kubernetes' own workloads that end: Jobs and CronJobs."""
