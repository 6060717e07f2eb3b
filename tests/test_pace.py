"""When a stream is told, and when its time is over, against a clock that is moved by hand."""

from spork_demo.ui.pace import paced


def test_it_tells_at_most_so_often_and_hands_on_what_ends_the_time():
    times = iter([0.0, 0.04, 0.11, 0.15, 0.22, 0.9, 0.98, 1.01])
    found = list(paced("abcdefg", lambda: next(times), 0.1, 1.0))
    assert "".join(item for item, _, _ in found) == "abcdefg"
    assert [due for _, due, _ in found] == [False, True, False, True, True, False, True]
    assert [over for _, _, over in found] == [False] * 6 + [True]
