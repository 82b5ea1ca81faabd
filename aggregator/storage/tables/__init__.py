"""The tables of the journal, a module each; `aggregator/storage/journal.py` is all of them together."""
