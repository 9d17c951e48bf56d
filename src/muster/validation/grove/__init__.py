"""What is valid in Grove's kinds: one file a subject, `pod_clique_set` and `children` put them together (R4-R9)."""
