"""One module per command group. They import the work inside the function, so that `--help` stays quick."""
