"""FedDF's experiments (Lin et al. 2020, arXiv:2006.07242)."""
