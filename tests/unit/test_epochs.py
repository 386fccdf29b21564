"""Which records are kept, by epoch and thread, and which numbers are no longer needed."""

import random
from typing import TYPE_CHECKING

from kernel_delay.capture.threads.epochs import Epochs
from kernel_delay.loader._records import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.loader._records import ThreadRecord

THREADS, SYSCALLS = lib.THREAD_RING, lib.SYSCALL_RING


def record(number: int, epoch: int, identity: int) -> "ThreadRecord":
    made = ffi.new("struct thread_record *")
    made.number, made.epoch, made.identity = number, epoch, identity
    return made


def test_next_epoch_is_the_threads_first_with_records() -> None:
    epochs = Epochs()
    rng = random.Random(1)
    expected: dict[int, set[int]] = {}
    for number in range(1, 200):
        # A record of an epoch may be made after one of the next.
        epoch, identity = number // 10 + rng.randrange(2), rng.randrange(5)
        epochs.add_thread(THREADS, record(number, epoch, identity))
        expected.setdefault(identity, set()).add(epoch)
    for epoch in range(22):
        found = epochs.next_after(epoch)
        later = {i: [e for e in own if e > epoch] for i, own in expected.items()}
        assert {i: parts.threads[0].epoch for i, parts in found.items()} == {
            i: min(own) for i, own in later.items() if own
        }
        assert set(epochs.threads(epoch)) == {i for i, own in expected.items() if epoch in own}
        if epoch % 4 == 3:
            epochs.release(epoch)
            assert not any(epochs.threads(older) for older in range(epoch + 1))


def test_the_oldest_number_is_of_what_is_not_released() -> None:
    epochs = Epochs()
    # Another CPU's record of an epoch may have a higher number than one of the next epoch.
    for number, epoch in ((1, 1), (2, 2), (3, 1), (4, 3)):
        epochs.add_thread(THREADS, record(number, epoch, number))
    assert epochs.owner(SYSCALLS, 7, 4) is epochs.threads(3)[4]
    assert (epochs.oldest(THREADS), epochs.oldest(SYSCALLS)) == (1, 7)
    epochs.release(1)
    assert (epochs.oldest(THREADS), epochs.oldest(SYSCALLS)) == (2, 7)
    epochs.release(2)
    assert epochs.oldest(THREADS) == 4
    epochs.release(3)
    assert (epochs.oldest(THREADS), epochs.oldest(SYSCALLS)) == (None, None)
    assert epochs.owner(SYSCALLS, 7, 4) is None


def test_nothing_is_left_when_all_is_forgotten() -> None:
    epochs = Epochs()
    epochs.add_thread(THREADS, record(1, 1, 1))
    epochs.clear()
    assert epochs.oldest(THREADS) is None
    assert not epochs.next_after(0)
    assert not epochs.threads(1)
