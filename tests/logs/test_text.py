"""Bytes to text: decoding in pieces, and progress bars folded."""

from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.logs import BarFolder, TextDecoder


def decode(pieces):
    decoder = TextDecoder()
    return "".join(decoder.feed(piece) for piece in pieces) + decoder.feed(b"", final=True)


def fold(pieces):
    folder = BarFolder()
    return "".join(folder.feed(piece) for piece in pieces)


def shown(text):
    """What a front end shows: of each line the last state that is not empty."""
    lines = text.replace("\r\n", "\n").split("\n")
    return [next((s for s in reversed(line.split("\r")) if s), "") for line in lines]


def cut(data, places):
    places = sorted({min(place, len(data)) for place in places})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


@given(st.binary(), st.lists(st.integers(0, 50)))
def test_decoding_does_not_depend_on_where_the_chunks_end(data, places):
    assert decode(cut(data, places)) == data.decode("utf-8", "replace")


def test_a_character_split_over_chunks_is_one_character():
    assert decode([b"caf\xc3", b"\xa9"]) == "café"


def test_invalid_bytes_are_replaced_and_the_rest_is_kept():
    assert decode([b"a\xffb\xc3"]) == "a\ufffdb\ufffd"


@given(st.text(alphabet="ab\r\n", max_size=40), st.lists(st.integers(0, 40)))
def test_folding_shows_the_same_however_the_text_was_cut(text, places):
    pieces = cut(text, places)
    assert shown(fold(pieces)) == shown(text.removesuffix("\r"))


def test_of_a_bar_only_the_last_state_goes_on():
    assert fold(["start\n 10%\r 50%\r100%\nend\n"]) == "start\n100%\nend\n"


def test_a_bar_that_goes_on_in_the_next_piece_overwrites():
    folder = BarFolder()
    assert folder.feed("1%\r2%") == "\r2%"
    assert folder.feed("\r3%\r4%") == "\r4%"
    assert folder.feed("\r5%\ndone\n") == "\r5%\ndone\n"


def test_a_bar_that_ends_each_state_with_the_return():
    folder = BarFolder()
    assert folder.feed("1%\r2%\r") == "\r2%"
    assert folder.feed("3%\r") == "\r3%"
    assert folder.feed("\n") == "\n"


def test_carriage_return_and_newline_are_a_newline_even_when_split():
    assert fold(["a\r", "\nb\r\n"]) == "a\nb\n"


def test_colours_are_kept():
    assert fold(["\x1b[31mred\x1b[0m\r\x1b[32mgreen\x1b[0m\n"]).endswith("\x1b[32mgreen\x1b[0m\n")
