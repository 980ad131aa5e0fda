"""The time of a kernel, estimated from its instruction bundles."""

import pytest

from experiments.accelerators import bundles

TEXT = """
= control target key start
LH: loop header
     0x0   :  { %s1 = smov 0  ;;  %v2 = vld [vmem:[%s0] sm:$0xff] }
     0x1 LB: > { %v3 = vadd.s32 %v2, %v2 }
     0x2 LB: >> { %v4 = vadd.s32 %v3, %v3 }
     0x3   : >> { %v5 = vadd.s32 %v4, %v4  ;;  %v6 = vadd.s32 %v4, %v4 }
     0x4   : > { %v7 = vmov %v5 }
     0x5 LB: >> { %v8 = vadd.s32 %v7, %v7 }
     0x6 LB: >> { %v9 = vadd.s32 %v8, %v8 }
     0x7   :  { %10 = vst [vmem:[%s1] sm:$0xff] /*vst_source=*/%v9 }
"""


def test_bundles_are_counted_by_loop():
    assert bundles.loops(TEXT) == [(0, 1), (1, 1), (2, 2), (1, 1), (2, 1), (2, 1), (0, 1)]


def test_a_round_has_the_inner_loops_at_their_lengths():
    assert bundles.cycles_of_an_advance(TEXT, (10, 5, 3)) == 2 + 2 * 10 + 5 + 3
    with pytest.raises(ValueError, match="expected 2 inner loops in one outer loop"):
        bundles.cycles_of_an_advance(TEXT, (10, 4))


def test_loop_counts_by_depth():
    assert bundles.cycles(TEXT, (2, 10)) == 2 + 2 * 2 + 20 * 4
