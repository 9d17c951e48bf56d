"""A PodGroup with its pods, as a tree of leaves and branches."""
