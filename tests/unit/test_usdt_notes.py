"""Notes as bytes: well-made ones are read, any others are counted or passed over."""

from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.probes.object_layout import ObjectLayout
from kernel_delay.probes.usdt import decode_notes
from kernel_delay.symbols.elf import Segment

TEXT = Segment(address=0x401000, offset=0x1000, size=0x1000, executable=True, writable=False)
DATA = Segment(address=0x403000, offset=0x2800, size=0x100, executable=False, writable=True)


def object_with(notes: bytes) -> ObjectLayout:
    return ObjectLayout(
        machine="X86_64",
        address_size=8,
        byte_order="little",
        segments=(TEXT, DATA),
        notes=notes,
        notes_base=None,
    )


def note(descriptor: bytes, owner: bytes = b"stapsdt\0", kind: int = 3) -> bytes:
    sizes = b"".join(n.to_bytes(4, "little") for n in (len(owner), len(descriptor), kind))
    return sizes + padded(owner) + padded(descriptor)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)


def descriptor(address: int = 0x401010, semaphore: int = 0, text: bytes = b"p\0n\0\0") -> bytes:
    return b"".join(n.to_bytes(8, "little") for n in (address, 0, semaphore)) + text


def test_addresses_become_offsets_by_the_segment_they_are_in() -> None:
    found = decode_notes(object_with(note(descriptor(0x401234, 0x403010, b"p\0n\0-4@%edi\0"))))
    assert found.malformed_notes == 0
    (probe,) = found.probes
    assert (probe.file_offset, probe.semaphore_offset) == (0x1234, 0x2810)
    assert [str(argument) for argument in probe.arguments] == ["4 signed bytes @ di"]


def test_other_owners_notes_are_passed_over() -> None:
    notes = note(descriptor(), owner=b"GNU\0") + note(descriptor(), kind=4) + note(descriptor())
    assert len(decode_notes(object_with(notes)).probes) == 1


def test_a_note_that_points_nowhere_is_counted() -> None:
    outside_code = note(descriptor(0x403010))
    outside_data = note(descriptor(0x401010, 0x401020))
    nameless = note(descriptor(text=b"p\0\0\0"))
    short = note(descriptor()[:20])
    broken_off = note(descriptor())[:-4]
    found = decode_notes(
        object_with(
            outside_code + outside_data + nameless + short + note(descriptor()) + broken_off
        )
    )
    assert (len(found.probes), found.malformed_notes) == (1, 5)


def test_names_that_are_not_utf_8_are_escaped() -> None:
    (probe,) = decode_notes(object_with(note(descriptor(text=b"p\xff\0n\0\0")))).probes
    assert probe.provider == "p\\xff"


small = st.integers(0, 80).map(lambda n: n.to_bytes(4, "little"))
pieces = st.one_of(st.binary(max_size=24), small, st.just(b"stapsdt\0"), st.builds(descriptor))


@given(st.one_of(st.binary(), st.lists(pieces).map(b"".join)))
def test_any_bytes_give_valid_probes_or_counted_notes(notes: bytes) -> None:
    found = decode_notes(object_with(notes))
    assert len(found.probes) + found.malformed_notes <= 1 + len(notes) // 12
    for probe in found.probes:
        assert 0x1000 <= probe.file_offset < 0x2000


@given(st.lists(st.builds(descriptor, st.integers(0x401000, 0x401FFF)), max_size=5), st.binary())
def test_what_follows_sound_notes_does_not_change_them(sound: list[bytes], rest: bytes) -> None:
    before = decode_notes(object_with(b"".join(map(note, sound))))
    after = decode_notes(object_with(b"".join(map(note, sound)) + rest))
    assert len(before.probes) == len(sound)
    assert after.probes[: len(sound)] == before.probes
