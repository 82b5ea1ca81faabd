"""Which updates are left out of their prototype's average, and why."""
