"""What the bench reads out of the log of the kernel's verifier."""

from bench.cost.programs import Verified, read_log

LOG_6_18 = """\
func#0 @0
0: R1=ctx() R10=fp0
; if (!thread) @ capture.bpf.c:12
0: (79) r1 = *(u64 *)(r1 +0)          ; R1=scalar()
1: (55) if r1 != 0x0 goto pc+1        ; R1=0
2: (95) exit

from 1 to 3: R1=scalar(umin=1) R10=fp0
3: (16) if w1 == 0x1 goto pc-2        ; R1=scalar()
processed 4 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
"""

LOOKED_AT_BEFORE = """\
1: (55) if r1 != 0x0 goto pc+1 // r1=fp0-8
3: (16) if w1 == 0x1 goto pc-2
"""


def test_jumps_are_counted_as_often_as_they_are_processed() -> None:
    assert read_log(LOG_6_18) == Verified(instructions=4, jumps=2)


def test_what_is_listed_before_is_not_counted() -> None:
    assert read_log(LOOKED_AT_BEFORE + LOG_6_18) == Verified(instructions=4, jumps=2)
