"""docs/boards.md has every board, with the Python and the number of wheels that the code has."""

from firmware_configs.boards import boards
from firmware_configs.kits.lock import shipped_lock
from firmware_configs.kits.resolve import Target
from tests.docs.test_docs import names_in, table_rows


def test_the_table_is_that_of_the_profiles_and_locks() -> None:
    rows = table_rows("docs/boards.md", "Kits")
    named = {name for row in rows for name in names_in(row[0])}
    assert named == set(boards())
    for names, system, python, mode, torch, wheels, *_ in rows:
        for name in names_in(names):
            board, family = boards()[name], system.split(",")[0]
            assert family in board.os
            if name != "generic-amd64":  # measured with the Python of the machine that has a CPU build of torch
                assert board.python[family] == python
            lock = set(shipped_lock(Target(board.arch, python), mode)) | {"edgestill"}
            lock |= {"torch"} if torch == "2.13.0+cpu" else set()
            lock -= {"torch"} if torch.startswith("NVIDIA") else set()
            assert len(lock) == int(wheels), (name, system, mode)
