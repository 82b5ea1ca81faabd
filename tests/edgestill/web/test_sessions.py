"""Logins, and how often a token may be tried."""

from edgestill.web.sessions import LASTS_S, MOST, TRIES, WINDOW_S, Sessions


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_login_is_found_by_its_cookie_until_it_ends() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    mine, other = sessions.begin("a"), sessions.begin("b")
    assert len({mine.name, mine.csrf, other.name, other.csrf}) == 4
    assert (sessions.find(mine.name), sessions.find(None), sessions.find("x")) == (mine, None, None)
    sessions.end(other)
    assert sessions.find(other.name) is None
    clock.now = LASTS_S + 1
    assert sessions.find(mine.name) is None


def test_the_oldest_login_gives_way() -> None:
    sessions = Sessions(Clock())
    first = sessions.begin("a")
    for _ in range(MOST):
        last = sessions.begin("b")
    assert (sessions.find(first.name), sessions.find(last.name)) == (None, last)


def test_wrong_tokens_are_counted_in_a_window() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    for _ in range(TRIES):
        assert sessions.may_try()
        sessions.failed()
    assert not sessions.may_try()
    clock.now = WINDOW_S + 1
    assert sessions.may_try()
