"""Settings that an operator changes from afar: which ones are allowed, and how one is tried before it is kept."""
