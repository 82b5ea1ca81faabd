"""The figures of a report, drawn with Matplotlib in a light and a dark theme."""
