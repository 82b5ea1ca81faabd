"""The board's own samples: found, labelled, checked, chosen and read. No torch.

What enters: all that the agent's helpers and children need to go from `[data]` to training samples. The agent itself
imports only `spec`, `survey` and what starts a helper: neither NumPy nor Pillow stays in its memory.
"""
