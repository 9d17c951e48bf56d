"""What the operators of other projects do, as values: LeaderWorkerSet, JobSet, Kubeflow's jobs, Ray."""
