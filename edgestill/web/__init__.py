"""The page of a running fleet: views of the journal in a browser, and the commands of an operator who has logged in.

It reads the journal and writes only what the command line writes, a command for the service. Nothing is loaded from
elsewhere, and no script stands in the markup.
"""
