"""Estimates from compiled HLO: small texts, written and counted by hand."""

# ruff: noqa: E501 - lines of HLO are long

import pytest

from gozero.compile import estimate

TPU = """
HloModule jit_f, is_scheduled=true

%fused_conv (p: f32[8,128]) -> f32[8,128] {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT %c = f32[8,128]{1,0:T(8,128)} convolution(%p, %p), dim_labels=bf_io->bf
}

%fused_add (p.1: f32[8,128]) -> f32[8,128] {
  %p.1 = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT %a = f32[8,128]{1,0:T(8,128)} add(%p.1, %p.1)
}

%flood_condition (s: (f32[8,128], pred[])) -> pred[] {
  %s = (f32[8,128]{1,0:T(8,128)}, pred[]{:T(512)}) parameter(0)
  ROOT %go = pred[]{:T(512)} get-tuple-element(%s), index=1
}

%flood (t: (f32[8,128], pred[])) -> (f32[8,128], pred[]) {
  %t = (f32[8,128]{1,0:T(8,128)}, pred[]{:T(512)}) parameter(0)
  %b = f32[8,128]{1,0:T(8,128)} get-tuple-element(%t), index=0
  %grow = f32[8,128]{1,0:T(8,128)} fusion(%b), kind=kLoop, calls=%fused_add, metadata={op_name="jit(f)/while/body/while/body/add"}, backend_config={"window_config":{"estimated_cycles":"1500"}}
  %k = pred[]{:T(512)} constant(false)
  ROOT %u = (f32[8,128]{1,0:T(8,128)}, pred[]{:T(512)}) tuple(%grow, %k)
}

%fewer (v: (s32[], f32[8,128])) -> pred[] {
  %limit = s32[]{:T(128)} constant(10)
  %v = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%v), index=0
  ROOT %lt = pred[]{:T(512)} compare(%i, %limit), direction=LT, metadata={op_name="jit(f)/while/cond/lt"}
}

%cheap (q: f32[8,128]) -> f32[8,128] {
  %q = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT %one = f32[8,128]{1,0:T(8,128)} fusion(%q), kind=kLoop, calls=%fused_add, backend_config={"estimated_cycles":"150"}
}

%dear (r: f32[8,128]) -> f32[8,128] {
  %r = f32[8,128]{1,0:T(8,128)} parameter(0)
  %two = f32[8,128]{1,0:T(8,128)} fusion(%r), kind=kLoop, calls=%fused_add, backend_config={"estimated_cycles":"750"}
  ROOT %three = f32[8,128]{1,0:T(8,128)} fusion(%two), kind=kLoop, calls=%fused_add, backend_config={"estimated_cycles":"750"}
}

%simulate (w: (s32[], f32[8,128])) -> (s32[], f32[8,128]) {
  %w = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}) parameter(0)
  %x = f32[8,128]{1,0:T(8,128)} get-tuple-element(%w), index=1
  %network = f32[8,128]{1,0:T(8,128)} fusion(%x), kind=kOutput, calls=%fused_conv, metadata={op_name="jit(f)/while/body/relu"}, backend_config={"estimated_cycles":"3000"}
  %joined = f32[8,128]{1,0:T(8,128)S(1)} custom-call(%network), custom_call_target="ConcatBitcast"
  %tu = (f32[8,128]{1,0:T(8,128)}, pred[]{:T(512)}) tuple(%network)
  %loop.2 = (f32[8,128]{1,0:T(8,128)}, pred[]{:T(512)}) while(%tu), condition=%flood_condition, body=%flood, metadata={op_name="jit(f)/while/body/while"}
  %y = f32[8,128]{1,0:T(8,128)} get-tuple-element(%loop.2), index=0
  %z = f32[8,128]{1,0:T(8,128)} conditional(%p2, %y, %y), true_computation=%cheap, false_computation=%dear
  %sum = f32[8,128]{1,0:T(8,128)} all-reduce(%z), replica_groups={{0,1}}, to_apply=%fused_add, backend_config={"estimated_cycles":"1500"}
  ROOT %out = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}) tuple(%i2, %sum)
}

ENTRY %main (x.1: f32[8,128]) -> f32[8,128] {
  %x.1 = f32[8,128]{1,0:T(8,128)} parameter(0)
  %copied = f32[2,1000]{1,0:T(8,128)} copy(%x.1)
  %fetched = f32[8,128]{1,0:T(8,128)S(1)} copy-start(%x.1)
  %loop.1 = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}) while(%tuple.1), condition=%fewer, body=%simulate, metadata={op_name="jit(f)/while"}
  ROOT %last = f32[8,128]{1,0:T(8,128)} get-tuple-element(%loop.1), index=1
}
"""
COPY = 2 * 8 * 1024 * 4 / 819e9  # f32[2,1000] is padded to 8 rows of 1024, read and written
CYCLE = 1 / 1.5e9
ROUND = (3000 + 2 * 750 + 1500) * CYCLE  # the network, the more expensive branch and the all-reduce


def find_loop(program: estimate.LoopEstimate, *path: int | str) -> estimate.LoopEstimate:
    loop = program.find(*path)
    assert loop is not None
    return loop


def test_time_is_of_rounds_cycles_and_padded_bytes():
    program = estimate.read(TPU, "v5e", {"body/while$": 5})
    simulation = find_loop(program, 10)
    flood = find_loop(simulation, "body/while")
    assert flood.seconds == pytest.approx(1500 * CYCLE)
    assert (flood.rounds, flood.is_known) == (5, False)
    compared = 2 / 819e9  # without cycles: the one byte of a predicate, read and written
    assert simulation.seconds == pytest.approx(ROUND + 5 * flood.seconds + compared)
    assert program.seconds == pytest.approx(COPY + 10 * simulation.seconds)


def test_the_network_is_the_part_with_convolutions():
    simulation = find_loop(estimate.read(TPU, "v5e", {"": 0}), 10)
    assert simulation.network_share == pytest.approx(3000 / 6000, rel=1e-3)


def test_unknown_loops_have_the_rounds_that_are_assumed():
    flood = find_loop(estimate.read(TPU, "v5e"), 10, "while")
    assert flood.rounds == estimate.DEFAULT_ROUNDS


def test_another_chip_has_another_clock():
    of = lambda chip: find_loop(estimate.read(TPU, chip), 10, "while").seconds
    assert of("v5e") / of("v6e") == pytest.approx(1.75 / 1.5)


def test_collectives_count_once_a_round():
    program = estimate.read(TPU, "v5e")
    assert (program.collectives, program.sent_bytes) == (10, 10 * 8 * 128 * 4)


def test_a_missing_loop_is_none():
    program = estimate.read(TPU, "v5e")
    assert program.find(11) is None
    assert program.find(11, "while") is None
    assert program.find() is program


def test_the_report_lists_the_most_expensive_step_first():
    lines = estimate.report(estimate.read(TPU, "v5e"), top=1).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["loop.1", "loop.2"]
    assert lines[-1].endswith("jit(f)/while/body/while/body/add")  # 3 rounds of 1,500 cycles


GPU = """
HloModule jit_f, is_scheduled=true

%fused_a (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %a = f32[8]{0} add(%p, %p)
}

%is_on (s: (f32[8])) -> pred[] {
  %s = (f32[8]{0}) parameter(0)
  %g = f32[8]{0} get-tuple-element(%s), index=0
  ROOT %test = pred[] fusion(%g), kind=kInput, calls=%fused_a
}

%descend (t: (f32[8])) -> (f32[8]) {
  %t = (f32[8]{0}) parameter(0)
  %h = f32[8]{0} get-tuple-element(%t), index=0
  %one = f32[8]{0} fusion(%h), kind=kLoop, calls=%fused_a
  %two = f32[8]{0} fusion(%one), kind=kLoop, calls=%fused_a
  ROOT %u = (f32[8]{0}) tuple(%two)
}

%taken (b: f32[8]) -> f32[8] {
  %b = f32[8]{0} parameter(0)
  ROOT %c = f32[8]{0} fusion(%b), kind=kLoop, calls=%fused_a
}

%not_taken (d: f32[8]) -> f32[8] {
  ROOT %d = f32[8]{0} parameter(0)
}

%buffered (e: f32[8]) -> f32[8] {
  %e = f32[8]{0} parameter(0)
  %gemm = (f32[8]{0}, s8[64]{0}) custom-call(%e, %e), custom_call_target="__cublas$gemm"
  ROOT %f = f32[8]{0} get-tuple-element(%gemm), index=0
}

%simulate (w: (s32[], f32[8])) -> (s32[], f32[8]) {
  %w = (s32[], f32[8]{0}) parameter(0)
  %x = f32[8]{0} get-tuple-element(%w), index=1
  %y = f32[8]{0} call(%x), to_apply=%buffered
  %v = (f32[8]{0}) tuple(%y)
  %path = (f32[8]{0}) while(%v), condition=%is_on, body=%descend, metadata={op_name="jit(f)/while/body/while"}
  %z = f32[8]{0} get-tuple-element(%path), index=0
  %r = f32[8]{0} conditional(%k, %z, %z), branch_computations={%taken, %not_taken}
  %ours = f32[8]{0} custom-call(%r), custom_call_target="__gpu$xla.gpu.triton"
  ROOT %out = (s32[], f32[8]{0}) tuple(%i, %ours)
}

%below (n: (s32[], f32[8])) -> pred[] {
  %n = (s32[], f32[8]{0}) parameter(0)
  ROOT %lt = pred[] fusion(%n), kind=kLoop, calls=%fused_a
}

ENTRY %main (x.1: f32[8]) -> f32[8] {
  %x.1 = f32[8]{0} parameter(0)
  %start = f32[8]{0} all-reduce-start(%x.1), to_apply=%fused_a
  %done = f32[8]{0} all-reduce-done(%start)
  %first = f32[8]{0} copy(%done)
  %loop = (s32[], f32[8]{0}) while(%tuple), condition=%below, body=%simulate, metadata={op_name="jit(f)/while"}, backend_config={"known_trip_count":{"n":"32"}}
  ROOT %last = f32[8]{0} get-tuple-element(%loop), index=1
}
"""


def test_an_exchange_goes_over_the_links_twice():
    line = "  %sum = f32[1000,128]{1,0:T(8,128)} all-reduce(%x), to_apply=%add"
    text = f"ENTRY %main (x: f32[1000,128]) -> f32[1000,128] {{\n{line}\n}}"
    sent = 1000 * 128 * 4
    assert estimate.read(text, "v5e").seconds == pytest.approx(2 * sent / 200e9)
    assert estimate.read(text, "v6e").seconds == pytest.approx(2 * sent / 448e9)


def test_kernels_and_host_synchronisations():
    program = estimate.read(GPU, "h100")
    simulation = find_loop(program, 32)
    # `below`, the product, `is_on` and two in the descent, `taken`, and our own kernel.
    assert simulation.kernels == 7
    assert (simulation.host_loops, simulation.host_conditionals) == (1, 1)
    assert program.kernels == 7 + 2  # an asynchronous all-reduce counts once; and the copy
    assert (program.host_loops, simulation.custom_kernels) == (1, 1)
    assert (program.seconds, program.network_share) == (0.0, 0.0)
    assert (program.collectives, program.sent_bytes) == (1, 128 * 4)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("f32[]", 4),
        ("u32[4096,2,3]{2,1,0:T(2,128)}", 4096 * 2 * 128 * 4),
        ("u32[4096,2,3]{0,2,1:T(4,128)}", 2 * 4 * 4096 * 4),
        ("bf16[100]{0:T(1024)(128)(2,1)}", 128 * 2),
        ("(pred[8,128]{1,0:T(8,128)}, s16[3,3])", 8 * 128 + 9 * 2),
        ("f8e4m3fn[16]", 16),
    ],
)
def test_bytes_are_of_padded_tiles(shape, expected):
    assert estimate.padded_bytes(shape) == expected


def test_a_text_without_an_entry_is_refused():
    with pytest.raises(ValueError, match="no entry computation"):
        estimate.read("module @jit_f {}", "v5e")
