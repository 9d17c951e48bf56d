"""One file a kind of workload: its tree, its minimums, and the leaf of each pod."""
