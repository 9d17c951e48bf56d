"""The search for a gang's children, domains and nodes, in tiers."""
