"""What a PodCliqueSet becomes: cliques, scaling groups, gangs, pods; as values, like the controllers of `workloads`."""
