"""Downloads of original dataset files: mirrors and checksums, one resumable HTTP GET, the commit to the data folder.

Only `edgestill data fetch` downloads; loaders read what is there.
"""
