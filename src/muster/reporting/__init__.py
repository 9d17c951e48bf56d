"""What users see: sentences, tables, trees, status, conditions and events."""
