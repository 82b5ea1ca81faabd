"""Local losses beyond cross-entropy, by paper: FedGen's generated latents, FedDistill's label logits, personal models.

`select` chooses by what the job says; `side_artifact` reads what is published beside a model.
"""
