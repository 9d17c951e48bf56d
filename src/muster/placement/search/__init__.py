"""Children and domains for a gang: the search and its tiers."""
