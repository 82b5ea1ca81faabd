"""The agent's folder on the board: identity, progress, cached models.

All writes are atomic renames. Uses neither network nor torch.
"""
