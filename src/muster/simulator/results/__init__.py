"""What a simulation found: columns, figures, comparisons, and how they are shown."""
