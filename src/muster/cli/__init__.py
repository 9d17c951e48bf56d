"""Commands: one file a verb; `wire` puts the parts together."""
