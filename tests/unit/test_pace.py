"""The pace of a busy log: batches of one size, and no waiting where little comes."""

from lily.pipeline.pace import LARGE, LONGEST, Pace


def in_a_loop(pace: Pace, *sent: int) -> list[int]:
    """Sizes of batches when whoever is answered sends again: one is written, one is read."""
    waiting, written, read = 0, *sent
    sizes = []
    for _ in range(40):
        waiting += written  # those are answered, and come back
        written = read
        read = min(waiting, pace.most)
        waiting -= read
        pace.took(read)
        sizes.append(read)
    return sizes


def test_a_large_and_a_small_batch_in_turns_become_alike() -> None:
    pace = Pace()
    pace.took(2_000)
    pace.took(400)
    sizes = in_a_loop(pace, 2_000, 400)
    assert max(sizes[-10:]) <= 1.3 * min(sizes[-10:])
    assert sum(sizes[-2:]) >= 1_600  # and nobody waits for the sake of it


def test_batches_grow_with_what_waits() -> None:
    pace = Pace()
    sizes = []
    for _ in range(30):
        sizes.append(pace.most)
        pace.took(sizes[-1])
    assert sizes[0] == LARGE
    assert sizes == sorted(sizes)
    assert sizes[-1] > 4 * LARGE


def test_only_behind_a_large_batch_more_is_waited_for() -> None:
    pace = Pace()
    assert pace.linger(10.0) == 0.0
    pace.took(LARGE - 1)
    assert pace.linger(10.3) == 0.0
    pace.took(LARGE)
    assert 0.0 < pace.linger(10.6) < 0.3
    pace.took(1)
    assert pace.linger(10.9) == 0.0


def test_after_a_pause_the_wait_is_short() -> None:
    pace = Pace()
    pace.linger(10.0)
    pace.took(10 * LARGE)
    assert pace.linger(500.0) == LONGEST
