"""Texts to token ids."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from core.errors import ConfigError
from models.text.tokenizer import encode_texts, load_tokenizer

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "##s", ".", "The"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("tokenizers", reason="extra `text`")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    return tmp_path


def test_a_vocabulary_makes_a_word_piece_tokenizer(folder: Path) -> None:
    ids = encode_texts(load_tokenizer(folder), ["The cats sat.", "dog"], 8)
    assert ids.dtype == np.int64
    #                      [CLS] the cat ##s sat . [SEP]
    assert ids.tolist() == [[2, 4, 5, 7, 6, 8, 3, 0], [2, 1, 3, 0, 0, 0, 0, 0]]


def test_the_tokenizers_settings_decide_about_case(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert encode_texts(load_tokenizer(folder), ["The cat"], 4).tolist() == [[2, 9, 5, 3]]


def test_tokenizer_json_comes_first_and_its_own_padding_does_not_matter(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    tokenizer.enable_padding(length=12, pad_id=1)
    tokenizer.enable_truncation(3)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").write_text("unused")
    assert encode_texts(load_tokenizer(folder), ["The cat sat"], 6).tolist() == [[2, 4, 5, 6, 3, 0]]


def test_a_long_text_is_cut_before_its_separator(folder: Path) -> None:
    assert encode_texts(load_tokenizer(folder), ["the cat sat ."], 4).tolist() == [[2, 4, 5, 3]]


def test_no_texts_are_no_rows(folder: Path) -> None:
    assert encode_texts(load_tokenizer(folder), [], 4).shape == (0, 4)


def test_the_ids_are_those_of_transformers(folder: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="the reference implementation")
    reference = transformers.BertTokenizer(str(folder / "vocab.txt"), do_lower_case=True)
    texts = ["The cats sat.", "dog sat. THE cat", ""]
    expected = reference(texts, padding="max_length", truncation=True, max_length=5)["input_ids"]
    assert encode_texts(load_tokenizer(folder), texts, 5).tolist() == expected


def test_a_length_without_room_for_the_special_tokens_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="texts of 1 tokens have no room"):
        encode_texts(load_tokenizer(folder), ["the"], 1)


def test_a_folder_without_a_tokenizer_is_refused(folder: Path) -> None:
    (folder / "vocab.txt").unlink()
    with pytest.raises(ConfigError, match=r"has neither tokenizer\.json nor vocab\.txt"):
        load_tokenizer(folder)


@pytest.mark.parametrize("words", [["a", "b"], ["[CLS]", "[PAD]", "[SEP]", "[UNK]"]], ids=["none", "pad is 1"])
def test_a_vocabulary_without_the_special_tokens_is_refused(folder: Path, words: list[str]) -> None:
    (folder / "vocab.txt").write_text("\n".join(words))
    with pytest.raises(ConfigError, match=r"needs \[CLS\], \[SEP\], and \[PAD\] as id 0"):
        load_tokenizer(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_file_that_is_no_json_is_refused_in_one_line(folder: Path, name: str) -> None:
    (folder / name).write_text("{")
    with pytest.raises(ConfigError, match=r"cannot be read|not readable as JSON") as caught:
        load_tokenizer(folder)
    assert "\n" not in str(caught.value)


def test_without_the_package_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError, match=r"install edgestill\[text\]"):
        load_tokenizer(tmp_path)
