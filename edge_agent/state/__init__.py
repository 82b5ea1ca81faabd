"""The agent's folder on the board: identity, progress, cached models.

Everything is written whole and renamed into place. Knows no network and no torch.
"""
