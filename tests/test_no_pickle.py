"""Pickle runs code when it loads: nothing here may ever load one."""

import pickle
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from wire.codec import decode_message, encode_message
from wire.envelope import open_envelope, seal
from wire.keys import generate_key
from wire.messages import State
from wire.tensors import Packed, decode, encode, to_safetensors

pytestmark = pytest.mark.light

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN = re.compile(
    r"^\s*(?:import|from)\s+(?:c?pickle|_pickle|dill|cloudpickle|joblib|shelve|marshal)\b"
    r"|\b(?:c?pickle|dill|cloudpickle)\s*\.\s*(?:loads?|dumps?|Unpickler|Pickler)\b"
    r"|import_module\(\s*['\"](?:c?pickle|dill|cloudpickle)\b"
    r"|(?<![\w.])torch\s*\.\s*(?:load|save)\s*\("
    r"|\bread_pickle\s*\("
    r"|\.recv\(\s*\)"  # of a multiprocessing.connection.Connection; recv_bytes is bytes
    r"|\ballow_pickle\s*=\s*(?!False\b)",
    re.MULTILINE,
)


def source_files() -> list[Path]:
    """The tracked Python files outside the tests; all of them where git is not at hand."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "*.py"], cwd=ROOT, capture_output=True, check=True, text=True, timeout=120
        ).stdout
        files = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.SubprocessError):
        files = []
    if not files:
        hidden = re.compile(r"/(\.|build/|venv/)")
        files = [f for f in ROOT.rglob("*.py") if not hidden.search(f.relative_to(ROOT.parent).as_posix())]
    return [f for f in files if f.is_file() and f.relative_to(ROOT).parts[0] != "tests"]


def test_no_source_file_loads_or_makes_a_pickle():
    files = source_files()
    assert len(files) > 15
    found = [
        f"{file.relative_to(ROOT)}: {match[0].strip()}"
        for file in files
        for match in FORBIDDEN.finditer(file.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "    from pickle import loads",
        "import cloudpickle as cp",
        "x = dill.loads(b)",
        "torch.load(path)",
        "torch.save(model, path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle = flag)",
        "importlib.import_module('pickle')",
        "pd.read_pickle(path)",
        "connection.recv()",
    ],
)
def test_the_search_finds_what_it_is_for(line):
    assert FORBIDDEN.search(f"x = 1\n{line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "np.load(path, allow_pickle=False)",
        "# never pickle",
        "workload(x)",
        "safetensors.torch.save(d)",
        "c.recv_bytes()",
    ],
)
def test_the_search_leaves_the_rest_alone(line):
    assert not FORBIDDEN.search(f"x = 1\n{line}\n")


def test_tensors_messages_and_envelopes_travel_without_pickle(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("pickle was called")

    for name in ("load", "loads", "dump", "dumps", "Unpickler", "Pickler", "_Unpickler", "_loads", "_load"):
        monkeypatch.setattr(pickle, name, refuse)
    with pytest.raises(AssertionError, match="pickle was called"):
        pickle.loads(b"")  # noqa: S301 - the patched one

    packed = Packed(bits=1, levels=np.array([1, -1], np.int8), scale=np.ones(2, np.float16), mean=None)
    data = encode({"a": np.ones(3, np.float32), "w": packed})
    back = decode(data)
    assert back["a"].tolist() == [1, 1, 1]
    assert back["w"] == packed
    assert to_safetensors(data)[8:9] == b"{"
    state = State(status="online", session=1)
    key = generate_key()
    sealed = seal(encode_message(state), key=key, kind="state", sender="pi", fleet="lab")
    assert decode_message(open_envelope(sealed, public_key=key.public_key(), fleet="lab").payload, State) == state


def test_an_array_of_objects_which_only_pickle_could_carry_is_refused():
    with pytest.raises(Exception, match="dtype object cannot be sent"):
        encode({"a": np.array([{}], dtype=object)})
