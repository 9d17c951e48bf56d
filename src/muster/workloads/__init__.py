"""What the controllers of workload kinds do, as values: the pods of a Job, a LeaderWorkerSet, a RayCluster."""
