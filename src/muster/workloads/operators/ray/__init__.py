"""Ray's kinds as KubeRay reconciles them: clusters of a head and worker groups, jobs and services on such clusters."""
