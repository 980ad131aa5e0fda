"""A bounded ladder reader: which chains are captured by a sequence of ataris.

A chain with two liberties is laddered if the attacker, to move, can play at one of them such that
every reply leaves it with at most two liberties, one of which again works. A chain with one liberty
is laddered if no reply of its owner, to move, saves it. The replies are extending at the last
liberty and capturing an attacking chain that touches the chain and is in atari. Three liberties are
an escape. All branches are searched, up to a bound on the plies and on the moves tried; a chain not
settled by then counts as escaped, so "laddered" is a proof.

Ko: a stone may not be retaken at once (simple ko), and there are no ko threats: a player who wants
to retake must have another move. Superko is ignored. With `KATAGO`, kos are treated as in the
ladder features that KataGo's networks were trained with: the defender wins kos, with one exception.
It may take any ko when it moves first or has just been put in atari by the first move, and an
attack that takes a ko has failed. The exception: a chain whose two liberties are both kos to take,
and which cannot gain by connecting or by a capture, is captured.

The search is a stack machine: a game reads its chains one after another, and each iteration of
the single loop tries one move in every game. The loop's predicate is one scalar for the batch. The
loop carries the current node of each game and a stack of that node's ancestors: an iteration writes
a row where a move is followed, and reads one where a game goes back. Most games need a fifth of the
iterations of the longest, so on a CPU a few lanes read many games, one after another, in a loop
that is one kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import batching, indexing, mode, stages
from gozero.go import bitboard as bb
from gozero.go import floods, liberties, stacked
from gozero.go.rules import WHITE, Position, Rules, legal_points, play_position

MOVES_PER_CHAIN = 128
"""Moves tried for one chain before it counts as escaped."""


class Reading(NamedTuple):
    """How ladders are read."""

    moves: int = MOVES_PER_CHAIN  # moves tried for one chain before it counts as escaped
    plies: int = 4  # times the size: a ladder from corner to corner takes about 4 plies a line
    katago: bool = False  # whether kos are treated as KataGo does


PLAIN = Reading()
KATAGO = Reading(moves=4096, plies=12, katago=True)
"""KataGo itself tries 25,000 moves and reads 3/2 size^2 plies."""

_NEXT_CHAIN = -1


class Ladders(NamedTuple):
    """What the reader found."""

    laddered: bb.Board  # stones of either colour
    captures: bb.Board  # moves of the player to move that capture a chain with two liberties


class _Node(NamedTuple):
    """What the search needs of a position, and the moves that the player to move has not tried."""

    black: bb.Board
    white: bb.Board
    atari: bb.Board
    untried: bb.Board
    ko: jax.Array  # i16[]
    to_play: jax.Array  # i8[]

    @classmethod
    def of(cls, position: Position, untried: bb.Board) -> _Node:
        black, white, atari = position.black, position.white, position.atari
        return cls(black, white, atari, untried, position.ko, position.to_play)

    @property
    def position(self) -> Position:
        """With a ply and passes of 0."""
        zeros = functools.partial(jnp.zeros, self.ko.shape)
        return Position(
            black=self.black,
            white=self.white,
            atari=self.atari,
            ko=self.ko,
            ply=zeros(jnp.int16),
            passes=zeros(jnp.int8),
            to_play=self.to_play,
        )


class _Root(NamedTuple):
    """A board to read."""

    position: Position
    lists_captures: jax.Array  # bool[]


class _Machine(NamedTuple):
    """The loop's carry besides the stack; each field has a leading axis [B]."""

    node: _Node  # the current node; anything if there is none
    todo: bb.Board  # W x u32: the stones of the chains still to read
    chain: bb.Board  # W x u32: the chain being read, as it stands on the root's board
    depth: jax.Array  # i32: the current node's depth; _NEXT_CHAIN if there is none
    tried: jax.Array  # i32: moves tried for the chain so far
    first: bb.Board  # W x u32: the move tried at depth 0
    works: jax.Array  # bool: whether some first move of the attacker captures the chain
    laddered: bb.Board  # W x u32
    captures: bb.Board  # W x u32


def ladders(rules: Rules, position: Position) -> Ladders:
    """Read every chain with one or two liberties. For one game; its atari and ply are not used."""
    read = _reader(rules.size, PLAIN)
    fields = position.black, position.white, position.to_play == WHITE, position.ko
    return Ladders(*read(*fields))


def read_boards(
    size: int,
    black: bb.Board,
    white: bb.Board,
    white_moves: jax.Array,
    ko: jax.Array,
    reading: Reading = PLAIN,
) -> Ladders:
    """As `ladders`, for K boards of one game (a leading axis [K] on all arguments).

    Captures are listed for the first board only; those of the others are empty. The boards are read
    together; a `vmap` over them inside one over games would not do that.
    """
    return Ladders(*_reader_of_boards(size, reading)(black, white, white_moves, ko))


@functools.cache
def _reader_of_boards(size: int, reading: Reading) -> Callable:
    def read(*boards):  # [K, B] each
        shape = boards[-1].shape
        flat = jax.tree.map(lambda x: x.reshape(-1), boards)
        listed = jnp.arange(shape[0] * shape[1]) < shape[1]  # those of the first board
        return jax.tree.map(lambda x: x.reshape(shape), _read(size, reading, *flat, listed=listed))

    return batching.over_games(read)


@functools.cache
def _reader(size: int, reading: Reading) -> Callable:
    return batching.over_games(functools.partial(_read, size, reading))


def _read(
    size: int, reading: Reading, black, white, white_moves, ko, listed: jax.Array | None = None
) -> tuple[bb.Board, bb.Board]:
    """Read all games of the batch in lockstep; on a CPU in one kernel, and more than `_num_lanes`
    games in turn, as more lanes take longer. `listed`, bool[B]: whether a game's captures are
    listed, or are left empty; None: all are.

    Trip bound: twice the chains of a game times `Reading.moves`.
    """
    rules = Rules(size=size, ko="simple")
    lay, batch = rules.layout, black[0].shape[0]
    counts = jax.vmap(lambda b, w: liberties.liberty_counts(lay, b, w))(black, white)
    filled = lambda x, dtype: jnp.full(batch, x, dtype)
    position = Position(
        black=black,
        white=white,
        atari=counts.one,
        ko=ko.astype(jnp.int16),
        ply=filled(0, jnp.int16),
        passes=filled(0, jnp.int8),
        to_play=white_moves.astype(jnp.int8),
    )
    root = _Root(position, filled(True, bool) if listed is None else listed)
    todo = bb.union(counts.one, counts.two)
    on_cpu = _in_one_kernel if batch <= _num_lanes(lay) else _from_queue
    under_rules = lambda read: functools.partial(read, rules, reading)
    return mode.by_platform(root, todo, cpu=under_rules(on_cpu), default=under_rules(_in_lockstep))


def _in_lockstep(rules: Rules, reading: Reading, root: _Root, todo: bb.Board):
    batch = todo[0].shape[0]
    start = _start(_Node.of(root.position, todo), todo), _stack(rules, reading, batch)
    continues = lambda carry: jnp.any(_busy(carry[0]))
    machine, _ = lax.while_loop(continues, functools.partial(_turn, rules, reading, root), start)
    return machine.laddered, machine.captures


def _num_lanes(lay: bb.Layout) -> int:
    """The number of games that a CPU reads at a time: one vector register of 16 words (AVX-512) or,
    on boards of few words, where an iteration's calls of stages cost as much as its work, three."""
    return 48 if lay.num_words <= stacked.FEW_WORDS else 16


_MAX_IDLE = 1 / 4
"""The fraction of idle lanes at which new games are handed out."""


def _in_one_kernel(rules: Rules, reading: Reading, root: _Root, todo: bb.Board):
    """As `_in_lockstep`; roots are packed, as those of `_from_queue` are."""
    games = jax.vmap(_pack_game)(root, todo)
    start = _start(_Node.of(root.position, todo), todo), _stack(rules, reading, todo[0].shape[0])
    read_on = functools.partial(_read_on, rules, reading, least=0)  # no argument: it is a constant
    machine, _ = stages.step_kernel(read_on, start, games)
    return machine.laddered, machine.captures


def _read_on(rules: Rules, reading: Reading, carry, games: jax.Array, least: jax.Array | int):
    """Read (machine, stack) on, while more than `least` games u32[C, 4 W + 2] are being read."""
    root, _ = jax.vmap(functools.partial(_unpack_game, rules.layout))(games)
    too_few_idle = lambda carry: jnp.sum(_busy(carry[0]), dtype=jnp.int32) > least
    return lax.while_loop(too_few_idle, functools.partial(_turn, rules, reading, root), carry)


class _Queue(NamedTuple):
    """The lanes, and the queue of games that they take from."""

    num_taken: jax.Array  # i32[]: how many games lanes have taken so far
    number: jax.Array  # i32[C]: the game that each lane reads; B for none
    root: jax.Array  # u32[C, 4 W + 2]: its root, as packed by `_pack_game`
    machine: _Machine
    stack: jax.Array
    results: jax.Array  # u32[B, 2 W]


def _from_queue(rules: Rules, reading: Reading, root: _Root, todo: bb.Board):
    """Games with the most to read come first; a lane that has finished one takes the next.

    Trip bound: the number of games, and for each that of `_read`.
    """
    lay, batch, lanes = rules.layout, todo[0].shape[0], _num_lanes(rules.layout)
    games = jax.vmap(_pack_game)(root, todo)
    order = jnp.argsort(-jax.vmap(bb.count)(todo)).astype(jnp.int32)

    def take(queue: _Queue) -> _Queue:
        idle = ~_busy(queue.machine)
        next_ = queue.num_taken + jnp.cumsum(idle, dtype=jnp.int32) - 1
        takes = idle & (next_ < batch)
        number = jnp.where(takes, order[jnp.minimum(next_, batch - 1)], queue.number)
        number = jnp.where(idle & ~takes, batch, number)
        own_games = games[jnp.minimum(number, batch - 1)]
        _, own_todo = jax.vmap(functools.partial(_unpack_game, lay))(own_games)
        new = _start(queue.machine.node, own_todo)
        keep = lambda new, old: jnp.where(takes, new, old)
        return queue._replace(
            num_taken=queue.num_taken + jnp.sum(takes, dtype=jnp.int32),
            number=number,
            root=own_games,
            machine=jax.tree.map(keep, new, queue.machine),
            results=with_results(queue),
        )

    def with_results(queue: _Queue) -> jax.Array:
        lane_results = jnp.stack([*queue.machine.laddered, *queue.machine.captures], axis=-1)
        return queue.results.at[queue.number].set(lane_results, mode="drop", unique_indices=True)

    def read(queue: _Queue) -> _Queue:
        queue = take(queue)
        least = jnp.where(queue.num_taken < batch, lanes - int(_MAX_IDLE * lanes), 0)
        machine, stack = stages.step_kernel(
            read_on, (queue.machine, queue.stack), queue.root, least
        )
        return queue._replace(machine=machine, stack=stack)

    read_on = functools.partial(_read_on, rules, reading)
    any_nodes = jax.tree.map(lambda x: x[:lanes], _Node.of(root.position, todo))
    start = _Queue(
        num_taken=jnp.int32(0),
        number=jnp.full(lanes, batch, jnp.int32),
        root=games[:lanes],
        machine=_start(any_nodes, jax.tree.map(jnp.zeros_like, any_nodes.untried)),
        stack=_stack(rules, reading, lanes),
        results=jnp.zeros((batch, 2 * lay.num_words), jnp.uint32),
    )
    continues = lambda queue: (queue.num_taken < batch) | jnp.any(_busy(queue.machine))
    results = with_results(lax.while_loop(continues, read, start))
    words = tuple(results.T)
    return words[: lay.num_words], words[lay.num_words :]


def _start(node: _Node, todo: bb.Board) -> _Machine:
    """The machine before its first chain. Any nodes [B] will do; `todo` are the chains to read."""
    none = tuple(jnp.zeros_like(word) for word in todo)
    filled = lambda x, dtype: jnp.full(todo[0].shape, x, dtype)
    return _Machine(
        node=node,
        todo=todo,
        chain=none,
        depth=filled(_NEXT_CHAIN, jnp.int32),
        tried=filled(0, jnp.int32),
        first=none,
        works=filled(False, bool),
        laddered=none,
        captures=none,
    )


def _busy(machine: _Machine) -> jax.Array:
    """bool[B]: whether a game has anything left to read."""
    return (machine.depth >= 0) | bb.any_of(machine.todo)


def _stack(rules: Rules, reading: Reading, batch: int) -> jax.Array:
    plies = reading.plies * rules.size
    return jnp.zeros((batch * plies, 4 * rules.layout.num_words + 2), jnp.uint32)


def _turn(rules: Rules, reading: Reading, root: _Root, carry):
    """One step of every game: (machine, stack) -> (machine, stack)."""
    machine, stack = carry
    depth = machine.depth
    machine, parent, pushes = jax.vmap(functools.partial(_step, rules, reading))(root, machine)
    pops = (machine.depth >= 0) & (machine.depth < depth)
    bottom = jnp.arange(depth.size) * (reading.plies * rules.size)
    push_rows, pop_rows = bottom + depth, bottom + machine.depth
    if mode.writes_sequentially():
        stack, node = _exchange_in_turn(
            rules.layout, stack, (pushes, push_rows, parent), (pops, pop_rows, machine.node)
        )
        return machine._replace(node=node), stack
    push_rows = jnp.where(pushes, push_rows, len(stack))
    stack = stack.at[push_rows].set(_pack_node(parent), mode="drop")
    unpack = jax.vmap(functools.partial(_unpack_node, rules.layout))
    popped = unpack(stack[jnp.where(pops, pop_rows, 0)])
    node = jax.tree.map(functools.partial(jnp.where, pops), popped, machine.node)
    return machine._replace(node=node), stack


def _exchange_in_turn(lay: bb.Layout, stack: jax.Array, pushed, popped) -> tuple[jax.Array, _Node]:
    """Push nodes to the stack and pop others, one game after another.

    Args:
      lay: the layout.
      stack: u32[R, K].
      pushed, popped: for each game, (whether to do it bool[B], the row i32[B], the node). Where
        nothing is popped, the node stays.

    Returns:
      The stack, and the nodes `popped`.
    """
    (pushes, push_rows, parents), (pops, pop_rows, nodes) = pushed, popped
    # u32[K, B]: the words of all games stay vectors.
    parent_columns, columns = _pack_node(parents, axis=0), _pack_node(nodes, axis=0)

    def push(game, stack):
        column = lax.dynamic_slice_in_dim(parent_columns, game, 1, 1)
        return lax.dynamic_update_slice_in_dim(stack, column.T, push_rows[game], 0)

    stack = indexing.for_each_true(pushes, push, stack)

    def pop(game, columns):
        row = lax.dynamic_slice_in_dim(stack, pop_rows[game], 1, 0)
        return lax.dynamic_update_slice_in_dim(columns, row.T, game, 1)

    return stack, _unpack_node(lay, indexing.for_each_true(pops, pop, columns))


def _step(
    rules: Rules, reading: Reading, root: _Root, machine: _Machine
) -> tuple[_Machine, _Node, jax.Array]:
    """One step of one game: start a new chain, try a move, or finish a node without moves.

    Returns:
      The machine; the node that it was at, without the move just tried; and whether to push that
      node, because the move is followed. Where the machine goes back, its node has yet to be read
      from the stack.
    """
    lay, plies = rules.layout, reading.plies * rules.size
    depth = machine.depth
    new = depth == _NEXT_CHAIN
    node = machine.node
    untried = bb.keep(~new, node.untried)
    exhausted = bb.any_of(untried) & (machine.tried >= reading.moves)
    moves = bb.any_of(untried) & ~exhausted
    ends = ~new & ~moves & ~exhausted
    move = bb.keep(moves, _lowest(untried))

    before = _where(new, root.position, node.position)
    action = jnp.where(moves, bb.point_of(lay, move), rules.pass_action)
    after = _where(moves, play_position(rules, before, action), before)
    seed = bb.where(new, _lowest(machine.todo), _lowest(machine.chain))
    if reading.katago:  # a defender that has just been put in atari may take any ko
        white_owns = bb.any_of(bb.intersection(root.position.white, seed))
        attacker = white_owns != (before.to_play == WHITE)
        first = ~new & (depth == 0) & attacker
        takes_ko = (after.ko >= 0) & ~first
        after = after.replace(ko=jnp.where(first, jnp.int16(bb.NO_POINT), after.ko))
    target = _read_target(rules, reading, root.position, after, seed, new)

    attacks = before.to_play != target.owner  # whether the attacker moved, or has no move left
    deepest = depth + 1 >= plies
    settled = ~attacks & ((target.num_liberties > 2) | (deepest & (target.num_liberties == 2)))
    opens = moves & ~deepest & (attacks | (target.num_liberties == 2))
    escapes = moves & settled
    if reading.katago:
        opens = opens & ~jnp.where(attacks, takes_ko, _dies_of_kos(lay, target))
    # A node without moves left has no refutation: the move that led to it works, so the one before
    # that fails. At the root all the attacker's moves are tried, if those that work are listed.
    works = ends & (depth == 1) & ~attacks
    listed = root.lists_captures & (target.owner != root.position.to_play)
    next_depth = jnp.where(escapes, depth - 1, depth)
    depth_after_capture = jnp.where(listed, 0, _NEXT_CHAIN)
    ended_depth = jnp.where(works, depth_after_capture, jnp.maximum(depth - 2, _NEXT_CHAIN))
    next_depth = jnp.where(ends, ended_depth, next_depth)
    next_depth = jnp.where(opens, depth + 1, next_depth)
    next_depth = jnp.where(exhausted, _NEXT_CHAIN, next_depth)
    opens = _once(opens)
    starts = new & bb.any_of(target.chain)
    next_depth = _once(jnp.where(new, jnp.where(starts, 0, _NEXT_CHAIN), next_depth))

    lost = ends & (depth == 0) & (~attacks | machine.works)
    caught = lost | (exhausted & machine.works) | (works & ~listed)
    chain = bb.where(new, target.chain, machine.chain)
    parent = _Node.of(before, bb.difference(untried, move))
    child = _Node.of(target.position, target.moves)
    goes_on = _once(starts | opens)
    machine = _Machine(
        node=jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), child, parent),
        todo=bb.difference(machine.todo, bb.keep(new, target.chain)),
        chain=chain,
        depth=next_depth,
        tried=jnp.where(new, 0, machine.tried + moves),
        first=bb.where(moves & (depth == 0), move, machine.first),
        works=(machine.works | works) & ~new,
        laddered=bb.union(machine.laddered, bb.keep(caught, chain)),
        captures=bb.union(machine.captures, bb.keep(works & listed, machine.first)),
    )
    return machine, parent, opens


# For numbers that all words of a board depend on: XLA:CPU would compute them again for each word.
_once = batching.behind_barrier(lambda x: x)
_share_a_point = batching.behind_barrier(lambda a, b: bb.any_of(bb.intersection(a, b)))


class _Target(NamedTuple):
    """The chain being read, on a board that the search has reached."""

    chain: bb.Board
    owner: jax.Array  # i8[]
    num_liberties: jax.Array  # i32[]
    position: Position  # that board; at the root, with the first player to move
    moves: bb.Board  # the moves to try for the player to move
    own: bb.Board  # stones of the chain's owner
    liberties: bb.Board
    captures: bb.Board  # moves that capture attackers beside the chain


def _only_wide(lay: bb.Layout, vacant: bb.Board, liberties: bb.Board, defends, moves) -> bb.Board:
    """Drop moves that need not be tried because of a wide liberty, one beside three empty points.

    The defender escapes there at once. The attacker has to play there, unless the liberties are
    adjacent to each other; if both are wide, no attack works.
    """
    west, east = tuple(x << np.uint32(1) for x in vacant), tuple(x >> np.uint32(1) for x in vacant)
    south, north = bb.south(lay, vacant), bb.north(lay, vacant)
    both_lines = bb.intersection(bb.intersection(west, east), bb.union(south, north))
    both_files = bb.intersection(bb.intersection(south, north), bb.union(west, east))
    wide = bb.intersection(liberties, bb.union(both_lines, both_files))
    any_wide = bb.any_of(wide)
    not_adjacent = ~bb.any_of(bb.intersection(bb.neighbours(lay, liberties), liberties))
    both_wide = _once(bb.count(wide) == 2)
    attacker_moves = bb.keep(~both_wide, wide)
    moves = bb.where(_once(defends & any_wide), bb.intersection(moves, liberties), moves)
    return bb.where(_once(~defends & any_wide & not_adjacent), attacker_moves, moves)


def _dies_of_kos(lay: bb.Layout, target: _Target) -> jax.Array:
    """bool[]: whether both of two liberties are kos the attacker may take, and nothing else helps.

    A point is such a ko if all its neighbours are the owner's stones and exactly one of them, a
    single stone, is in atari.
    """
    around = bb.neighbours(lay, target.liberties)
    dies = ~bb.any_of(bb.difference(around, target.own)) & ~bb.any_of(target.captures)
    vacant = bb.complement(lay, bb.union(target.position.black, target.position.white))
    first = _lowest(target.liberties)
    points = first, bb.difference(target.liberties, first)
    for point in points:
        in_atari = bb.intersection(bb.neighbours(lay, point), target.position.atari)
        alone = ~bb.any_of(bb.intersection(bb.neighbours(lay, in_atari), target.own))
        dies = dies & (bb.count(in_atari) == 1) & alone
    seeds = [bb.keep(dies, bb.neighbours(lay, point)) for point in points]
    for point, chain in zip(
        points, floods.flood(lay, seeds, bb.joints(lay, target.own)), strict=True
    ):
        joined = bb.intersection(bb.neighbours(lay, chain), vacant)
        dies = dies & (bb.count(bb.difference(joined, point)) <= 2)
    return _once(dies)


def _read_target(
    rules: Rules, reading: Reading, root: Position, position: Position, seed: bb.Board, new
) -> _Target:
    """Examine the chain that holds the stone `seed`."""
    lay = rules.layout
    is_white = _share_a_point(root.white, seed)
    own = bb.where(is_white, position.white, position.black)
    attackers = bb.where(is_white, position.black, position.white)
    vacant = bb.complement(lay, bb.union(own, attackers))
    (chain,) = floods.flood(lay, [seed], bb.joints(lay, own))
    around = bb.neighbours(lay, chain)
    liberties = bb.intersection(around, vacant)
    num_liberties = _once(bb.count(liberties))
    weak = bb.intersection(bb.intersection(around, attackers), position.atari)
    (weak,) = floods.flood(lay, [weak], bb.joints(lay, attackers))
    captures = bb.intersection(bb.neighbours(lay, weak), vacant)

    owner = is_white.astype(jnp.int8)
    first_player = jnp.where(num_liberties == 1, owner, jnp.int8(1) - owner)
    keeps_ko = num_liberties != 1 if reading.katago else first_player == root.to_play
    ko = jnp.where(keeps_ko, root.ko, jnp.int16(bb.NO_POINT))
    position = position.replace(
        to_play=jnp.where(new, first_player, position.to_play),
        ko=_once(jnp.where(new, ko, position.ko)),
    )
    defends = _once(position.to_play == owner)
    moves = bb.union(liberties, bb.keep(defends, captures))
    moves = bb.intersection(moves, legal_points(rules, position))
    if reading.katago:
        moves = _only_wide(lay, vacant, liberties, defends, moves)
    return _Target(chain, owner, num_liberties, position, moves, own, liberties, captures)


def _lowest(a: bb.Board) -> bb.Board:
    """Only the lowest point of a board; empty if the board is."""
    first = jnp.full(jnp.shape(a[0]), len(a), jnp.int32)
    for w in reversed(range(len(a))):
        first = jnp.where(a[w] != 0, w, first)
    first = _once(first)
    lowest = [word & (~word + np.uint32(1)) for word in a]
    return tuple(jnp.where(first == w, bit, np.uint32(0)) for w, bit in enumerate(lowest))


def _where(condition: jax.Array, a: Position, b: Position) -> Position:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def _pack_node(node: _Node, axis: int = -1) -> jax.Array:
    """u32[4 W + 2]: a node as a row of the stack; of several nodes, stacked along an axis."""
    words = [*node.black, *node.white, *node.atari, *node.untried]
    ko = jnp.maximum(node.ko, jnp.int16(bb.NO_POINT)) - jnp.int16(bb.NO_POINT)
    return jnp.stack([*words, ko.astype(jnp.uint32), node.to_play.astype(jnp.uint32)], axis)


def _pack_game(root: _Root, todo: bb.Board) -> jax.Array:
    """u32[4 W + 2]: a root and the chains to read, as by `_pack_node`; bit 1 of the last word, that
    of the player to move, is `lists_captures`."""
    node = _Node.of(root.position, todo)
    flag = root.lists_captures.astype(jnp.int8) << np.int8(1)
    return _pack_node(node._replace(to_play=node.to_play | flag))


def _unpack_game(lay: bb.Layout, row: jax.Array) -> tuple[_Root, bb.Board]:
    """(the root, the chains to read), packed by `_pack_game`."""
    node = _unpack_node(lay, row)
    position = node._replace(to_play=node.to_play & np.int8(1)).position
    return _Root(position, node.to_play > 1), node.untried


def _unpack_node(lay: bb.Layout, row: jax.Array) -> _Node:
    """The node of u32[4 W + 2], or nodes [B] of u32[4 W + 2, B]."""
    w = lay.num_words
    black, white, atari, untried = (tuple(row[k * w + i] for i in range(w)) for k in range(4))
    ko = row[4 * w].astype(jnp.int16) + jnp.int16(bb.NO_POINT)
    return _Node(black, white, atari, untried, ko, row[4 * w + 1].astype(jnp.int8))
