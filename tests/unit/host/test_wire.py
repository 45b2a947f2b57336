"""Frames of the host's wire format."""

import struct

import pytest

from hta_widgets.host.session import MAX_PARTS, WireError, pack, unpack

#: Written by hand: parts of 10, 3 and 0 bytes at 16, 32 and 40; also in wire.test.ts.
FRAME = (
    bytes([3, 0, 0, 0, 10, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0])
    + b'{"type":1}'
    + bytes([0, 0, 0, 0, 0, 0, 7, 8, 9, 0, 0, 0, 0, 0])
)


def test_a_frame_is_as_the_protocol_says():
    assert pack({"type": 1}, [bytes([7, 8, 9]), b""]) == FRAME


def test_it_is_read_back():
    message, buffers = unpack(FRAME)
    assert message == {"type": 1}
    assert [bytes(part) for part in buffers] == [b"\x07\x08\x09", b""]


def test_names_that_are_half_a_surrogate_pair_pass():
    message = {"name": "\ud800 é </script>"}
    assert unpack(pack(message))[0] == message


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\1\0",
        b"no frame at all",
        struct.pack("<I", 0),
        struct.pack("<2I", 1, 100),
        struct.pack("<I", MAX_PARTS + 1) + bytes(4 * (MAX_PARTS + 1)),
        struct.pack("<I", 2**32 - 1) + bytes(64),
        struct.pack("<2I", 1, 2**32 - 1) + bytes(64),
        FRAME + b"\0",
        FRAME[:-9],
        struct.pack("<2I", 1, 2) + b"[]",
        struct.pack("<2I", 1, 1) + b"7",
        struct.pack("<2I", 1, 2) + b'"\xff',
        struct.pack("<2I", 1, 100_000) + b"[" * 100_000,
    ],
)
def test_what_is_no_frame_is_an_error(frame):
    with pytest.raises(WireError):
        unpack(frame)
