"""Cards survive both places where they are stored, and what is no card is told."""

import msgspec
import pytest

from core.errors import ModelError
from models.card import InputCard, ModelCard, layout_of

pytestmark = pytest.mark.light
GIVEN = InputCard(dtype="uint8", layout="NCHW", shape=(3, 8, 8), mean=(1.0, 2.0, 3.0), std=(4.0,), inside=True)
CARD = ModelCard(
    prototype="cnn:w1",
    precision="w1",
    classes=2,
    class_names=("cat", 'a "dog"\n'),
    input=GIVEN,
    output="probabilities",
    latent=32,
    fleet="f",
    device="pi-1",
    round=0,
    base="ab" * 32,
    trained_here=True,
    accuracy=0.5,
    accuracy_samples=4,
    edgestill="1.0",
)


def test_a_card_survives_json_and_metadata() -> None:
    assert ModelCard.from_json(CARD.to_json().encode(), "x") == CARD
    assert ModelCard.from_metadata(CARD.to_metadata() | {"other": "kept out"}, "x") == CARD
    least = ModelCard(classes=2, input=InputCard(dtype="int64", layout="NL", shape=(4,)))
    assert ModelCard.from_metadata(least.to_metadata(), "x") == least
    assert ModelCard.from_json(least.to_json().encode(), "x") == least


def test_metadata_are_texts_that_other_languages_read_and_do_not_name_the_file() -> None:
    told = msgspec.structs.replace(CARD, file="a.onnx", sha256="0" * 64).to_metadata()
    assert told["class_names"] == '["cat","a \\"dog\\"\\n"]'
    assert (told["prototype"], told["round"], told["trained_here"]) == ("cnn:w1", "0", "true")
    assert not {"file", "sha256"} & told.keys()


def test_classes_without_names_are_numbers() -> None:
    assert msgspec.structs.replace(CARD, class_names=()).labels == ("0", "1")
    assert CARD.labels == CARD.class_names


@pytest.mark.parametrize("data", [b'{"prototype": "cnn:w1", "round": 3}', b"{}"])
def test_the_json_of_an_older_agent_is_no_card(data: bytes) -> None:
    assert ModelCard.from_json(data, "x") is None
    assert ModelCard.from_metadata({"name": "other"}, "x") is None


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "not a model card"),
        (b"[1]", "not a model card"),
        (b"\xff\xfe", "not a model card"),
        (b'{"card": 1}', "not a model card"),
        (CARD.to_json().replace('"card": 1', '"card": 2').encode(), "version 2, this edgestill reads 1; update"),
        (CARD.to_json().replace('"classes": 2', '"classes": 3').encode(), "2 class names for 3 classes"),
        (CARD.to_json().replace("4.0", "0.0").encode(), "a std of 0"),
        (CARD.to_json().replace("4.0", "4.0, 5.0").encode(), "numbers of mean or std"),
    ],
)
def test_a_damaged_card_is_told_in_one_line(data: bytes, told: str) -> None:
    with pytest.raises(ModelError, match=told) as refused:
        ModelCard.from_json(data, "current.json")
    assert "\n" not in str(refused.value)


def test_damaged_metadata_are_told() -> None:
    with pytest.raises(ModelError, match="export it again"):
        ModelCard.from_metadata({"card": "1", "classes": "many"}, "x.onnx")


def test_layouts_have_the_names_of_the_field() -> None:
    assert [layout_of((1,) * n) for n in (1, 2, 3, 4)] == ["NF", "NCL", "NCHW", "NCDHW"]
