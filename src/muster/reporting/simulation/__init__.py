"""The report of a simulation: one HTML file that needs no network."""
