"""Commands: one file a verb; `assemble` puts the parts together."""
