"""A record as a line of COPY text."""

from lily.log.postgres import Record, line


def test_marks_that_mean_something_to_copy_are_escaped() -> None:
    record = Record("core", 7, "a\tb\\c\nd\re", '{"x":"\\\\"}')
    assert line(record, 12) == 'core\t12\t7\ta\\tb\\\\c\\nd\\re\t{"x":"\\\\\\\\"}\n'


def test_plain_values_stay_as_they_are() -> None:
    assert line(Record("fields", 1, "t#c", '{"é":1}'), 3) == 'fields\t3\t1\tt#c\t{"é":1}\n'
