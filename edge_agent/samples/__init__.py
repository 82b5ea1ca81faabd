"""The board's own samples: listed, labelled, checked, selected and read. No torch.

What enters: the path from `[data]` to training samples, for the agent's helpers and children. The agent itself imports
only `spec`, `survey` and the code that starts a helper, so that neither NumPy nor Pillow stays in its memory.
"""
