"""FedRAD's experiments (Sturluson et al. 2021, arXiv:2112.01405)."""
