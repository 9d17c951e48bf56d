"""Time at will: a clock, kubelets, workloads and scenarios that are not real."""
