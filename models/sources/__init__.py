"""Readers of user files, shared by simulations and boards: pictures, tables of numbers, loaders. No torch.

What enters: a format that both read. Which samples are used, and how they are split, is for `fleet/data/` and
`edge_agent/samples/`.
"""
