"""Hashed tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from fleet.data.text import VOCAB, token_ids, words
from models.zoo import TEXT_BUCKETS


def test_words_are_lower_cased_and_keep_their_apostrophes() -> None:
    assert words("Don't  stop -- 2nd 'quoted' Ünï!") == ["don't", "stop", "2nd", "quoted", "ünï"]


def test_ids_are_the_crc_of_the_word() -> None:
    # zlib.crc32(b"a") == 0xE8B7BE43 and crc32(b"the") == 0x3C456DE6 on every machine
    ids = token_ids(["a the A"], vocab=1001, length=4)
    assert ids.tolist() == [[1 + 0xE8B7BE43 % 1000, 1 + 0x3C456DE6 % 1000, 1 + 0xE8B7BE43 % 1000, 0]]


def test_long_texts_are_cut_and_empty_ones_are_padding() -> None:
    ids = token_ids(["one two three", ""], length=2)
    assert (ids[0] > 0).all()
    assert ids[1].tolist() == [0, 0]


def test_the_vocabulary_is_that_of_the_text_prototype() -> None:
    assert VOCAB == TEXT_BUCKETS


@given(st.lists(st.text(), max_size=5), st.integers(2, 50), st.integers(1, 10))
def test_ids_stay_in_the_vocabulary_and_padding_comes_last(texts: list[str], vocab: int, length: int) -> None:
    ids = token_ids(texts, vocab=vocab, length=length)
    assert ids.shape == (len(texts), length)
    assert ids.dtype == np.int64
    assert ((ids >= 0) & (ids < vocab)).all()
    padding = ids == 0
    assert (np.diff(padding.astype(int), axis=1) >= 0).all()


@pytest.mark.parametrize(("vocab", "length"), [(1, 4), (10, 0)])
def test_a_vocabulary_or_length_of_nothing_is_refused(vocab: int, length: int) -> None:
    with pytest.raises(ConfigError, match="give a vocab of 2 or more"):
        token_ids(["a"], vocab=vocab, length=length)
