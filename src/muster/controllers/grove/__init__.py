"""The operator of PodCliqueSets: Grove's controllers beside a scheduler."""
