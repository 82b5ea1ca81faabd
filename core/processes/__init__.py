"""Child processes: how one is started, spoken to, limited, watched and ended."""
