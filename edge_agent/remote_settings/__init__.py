"""Settings that an operator changes remotely: which are allowed, and how they are tried before they are kept."""
