"""What the dashboard shows, as values: rows, pages and changes. The numbers are those of the CLI."""
