"""PodCliqueSets: what each replica consists of, how it is updated, and when it is recreated."""
