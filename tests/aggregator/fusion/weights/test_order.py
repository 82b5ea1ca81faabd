"""Parts that see updates by device id."""

from aggregator.fusion.types import View
from aggregator.fusion.weights.order import by_device
from tests.aggregator.fusion.views import points, view_of


def test_a_part_sees_updates_by_id_and_weights_go_back_to_their_places() -> None:
    seen: list[list[str]] = []

    @by_device
    def part(view: View) -> list[float]:
        """Places as weights."""
        seen.append(view.devices)
        return [1.0, 2.0, 3.0]

    assert part(view_of(points([0], [1], [2]), devices=["c", "a", "b"])) == [3, 1, 2]
    assert seen == [["a", "b", "c"]]
    assert part.__doc__ == "Places as weights."
