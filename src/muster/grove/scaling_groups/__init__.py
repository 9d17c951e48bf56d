"""PodCliqueScalingGroups: replicas of cliques that scale, update and are recreated as wholes."""
