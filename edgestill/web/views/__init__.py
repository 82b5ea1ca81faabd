"""The values of each view, from the journal, the service's files and run.json; no markup, nothing of HTTP."""
