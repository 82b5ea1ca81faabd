"""DistilBERT as a prototype: the network, its folder of weights, its tokenizer. No downloads.

Only `distilbert` imports torch; the tokenizer needs the extra `text`. The zoo's own text model is `models/zoo/text.py`.
"""
