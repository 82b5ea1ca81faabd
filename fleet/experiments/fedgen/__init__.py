"""FedGen's experiments (Zhu et al. 2021, arXiv:2105.10056)."""
