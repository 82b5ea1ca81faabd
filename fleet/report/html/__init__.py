"""The page of a report: one HTML file, no script, nothing from elsewhere."""
