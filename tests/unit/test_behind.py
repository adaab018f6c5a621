"""Work behind the caller's back: in order, and no failure is lost."""

from threading import Event

import pytest

from lily.pipeline.behind import Behind


def test_pieces_are_done_one_after_the_other_in_order() -> None:
    behind, done = Behind("test"), list[int]()
    for number in range(5):
        behind.submit(lambda number=number: done.append(number))  # type: ignore[misc]
    behind.settle()
    assert done == [0, 1, 2, 3, 4]
    behind.close()


def test_the_caller_goes_on_while_a_piece_is_under_way() -> None:
    behind, go = Behind("test"), Event()
    behind.submit(lambda: go.wait(10))
    behind.check()  # under way is not wrong
    with pytest.raises(TimeoutError):
        behind.settle(0.01)
    go.set()
    behind.settle()
    behind.close()


def test_after_a_failure_nothing_is_begun_and_everybody_hears_of_it() -> None:
    behind, done = Behind("test"), list[int]()

    def fail() -> None:
        raise ValueError("no")

    behind.submit(fail)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            behind.submit(lambda: done.append(1))
    with pytest.raises(ValueError, match="no"):
        behind.check()
    assert done == []
    behind.close()
