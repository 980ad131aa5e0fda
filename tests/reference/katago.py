"""The inputs of KataGo's networks, by sets and recursion. The oracle of `nets.katago.inputs`."""

from __future__ import annotations

import math

from tests.reference.go import EMPTY, WHITE, ReferenceGame


def components(game, wanted):
    """The connected sets of the points for which `wanted` holds."""
    left, found = {p for p in range(game.size**2) if wanted(p)}, []
    while left:
        part, todo = set(), [left.pop()]
        while todo:
            p = todo.pop()
            part.add(p)
            todo += [q for q in game.neighbours[p] if q in left]
            left -= set(game.neighbours[p])
        found.append(part)
    return found


# --- scores -------------------------------------------------------------------------------


def expected_score_value(mean, stdev, center, scale, side):
    """`ScoreValue::expectedWhiteScoreValue`, interpolated between four entries of its table."""
    unit = scale * side / 19
    mean, stdev = (mean - center) / unit, stdev / unit
    low = math.floor(mean + 0.5)  # entry i is for a mean of i - 1/2
    (m, s), floor = (mean - low + 0.5, stdev - math.floor(stdev)), math.floor(stdev)
    a, b = ((1 - s) * _table(low + i, floor) + s * _table(low + i, floor + 1) for i in (0, 1))
    return (1 - m) * a + m * b


def _table(mean, stdev):
    at = [x / 10 for x in range(-50, 51)]
    weights = [math.exp(-0.5 * x * x) for x in at]
    found = (math.atan((mean - 0.5 + stdev * x) / 19) * 2 / math.pi for x in at)
    return sum(w * x for w, x in zip(weights, found, strict=True)) / sum(weights)


# --- areas --------------------------------------------------------------------------------


def settled(game, board, colour, suicide):
    """The pass-alive stones of a colour and the regions that are certainly its territory."""
    chains = [frozenset(c) for c in components(game, lambda p: board[p] == colour)]
    regions = [frozenset(c) for c in components(game, lambda p: board[p] != colour)]
    around = lambda part: {q for p in part for q in game.neighbours[p]}
    vital = {
        (region, chain)
        for region in regions
        for chain in chains
        if all(set(game.neighbours[p]) & chain for p in region if suicide or board[p] == EMPTY)
    }
    alive = set(chains)
    while True:
        sound = [r for r in regions if all(c in alive for c in chains if around(r) & c)]
        kept = {c for c in alive if sum((r, c) in vital for r in sound) >= 2}
        if kept == alive:
            break
        alive = kept
    area = set().union(*alive)
    for region in regions:
        if not chains or any(c not in alive for c in chains if around(region) & c):
            continue
        inside = [p for p in region if not any(board[q] == colour for q in game.neighbours[p])]
        if len(inside) <= 1 or all(board[p] == EMPTY for p in region):
            area |= region
    return area


def areas(game, board, suicide, tax="none"):
    """{colour: set of points}: each colour's area under area scoring with a tax."""
    safe = {colour: settled(game, board, colour, suicide) for colour in (1, -1)}
    basic = {colour: set(safe[colour]) for colour in (1, -1)}
    for colour in (1, -1):
        basic[colour] |= {p for p, x in enumerate(board) if x == colour} - safe[-colour]
    for region in components(game, lambda p: board[p] == EMPTY):
        touched = {board[q] for p in region for q in game.neighbours[p]} - {EMPTY}
        if len(touched) == 1:
            colour = touched.pop()
            basic[colour] |= region - safe[-colour]
    if tax == "none":
        return basic
    found = {}
    for colour in (1, -1):
        nobodys = {p for p, x in enumerate(board) if x == EMPTY} - basic[1] - basic[-1]
        found[colour] = {p for p in basic[colour] if board[p] == colour}
        for part in components(game, lambda p, c=colour: p in basic[c]):
            touches = any(set(game.neighbours[p]) & nobodys for p in part)
            stones = [p for p in part if board[p] == colour]
            if not touches and all(len(game.chain(board, p)[1]) > 1 for p in stones):
                found[colour] |= part
    return found


# --- ladders ------------------------------------------------------------------------------


class Ladders:
    """KataGo's ladder search, without its limits."""

    def __init__(self, size):
        self.game = ReferenceGame(size)

    def read(self, board, ko, mover):
        """(laddered stones, moves of `mover` that capture); `ko` is the point that ko bans."""
        laddered, captures = set(), set()
        for p, colour, stones, liberties in self.game.chains(board):
            if len(liberties) == 1 and self._caught(board, p, None):
                laddered |= stones
            elif len(liberties) == 2:
                works = set()
                for move in liberties - {ko}:
                    after = self._play(board, move, -colour)
                    if after is not None and self._caught(after[0], p, None):
                        works.add(move)
                laddered |= stones if works else set()
                captures |= works if colour == -mover else set()
        return laddered, captures

    def _caught(self, board, target, ko):
        """Whether the chain is captured, its owner to move."""
        colour = board[target]
        stones, liberties = self.game.chain(board, target)
        if len(liberties) >= 2 or ko is not None:
            return False
        for move in self._gains(board, stones, colour) | liberties:
            after = self._play(board, move, colour)
            if after is not None and not self._chased(after[0], target, after[1]):
                return False
        return True

    def _chased(self, board, target, ko):
        """Whether the chain is captured, the attacker to move."""
        colour = board[target]
        stones, liberties = self.game.chain(board, target)
        if len(liberties) <= 1 or len(liberties) >= 3:
            return len(liberties) <= 1
        if self._two_kos(board, stones, liberties, colour):
            return True
        for move in liberties - {ko}:
            after = self._play(board, move, -colour)
            if after is not None and self._caught(after[0], target, after[1]):
                return True
        return False

    def _two_kos(self, board, stones, liberties, colour):
        for move in liberties:
            beside = self.game.neighbours[move]
            if any(board[q] != colour for q in beside):
                return False
            weak = [q for q in beside if len(self.game.chain(board, q)[1]) == 1]
            if len(weak) != 1 or len(self.game.chain(board, weak[0])[0]) != 1:
                return False
            joined = list(board)
            joined[move] = colour
            if len(self.game.chain(joined, move)[1]) > 2:
                return False
        return not self._gains(board, stones, colour)

    def _gains(self, board, stones, colour):
        found = set()
        for p in {q for s in stones for q in self.game.neighbours[s] if board[q] == -colour}:
            liberties = self.game.chain(board, p)[1]
            found |= liberties if len(liberties) == 1 else set()
        return found

    def _play(self, board, move, colour):
        """(the board after a move, its ko point); None for a suicide."""
        self.game.board, self.game.to_play = board, colour
        after = self.game.board_after(move)
        return None if after is None else (after, ko_of(self.game, board, after))


def ko_of(game, before, after):
    """The point that simple ko bans after a move, or None."""
    placed = [p for p in range(len(after)) if after[p] and not before[p]]
    if not placed:
        return None
    (p,) = placed
    taken = [q for q in range(len(after)) if before[q] == -after[p] and not after[q]]
    stones, liberties = game.chain(after, p)
    return taken[0] if len(taken) == len(stones) == len(liberties) == 1 else None


# --- planes -------------------------------------------------------------------------------


def planes(game, moves, tax="none", num_past_moves=5):
    """The 22 input planes as sets of points, under area scoring; `moves` in the order played."""
    size, own, board = game.size, game.to_play, game.board
    points = range(size * size)
    found = [set() for _ in range(22)]
    found[0] = set(points)
    for p in points:
        if board[p]:
            found[1 if board[p] == own else 2].add(p)
            liberties = len(game.chain(board, p)[1])
            if liberties <= 3:
                found[2 + liberties].add(p)
    found[6] = {p for p in points if game.board_after(p) and not game.is_legal(p)}
    moves = moves[::-1][:num_past_moves]
    for k, move in enumerate(moves[:5]):
        found[9 + k] |= {move} - {size * size}
    history = [list(b) for b in game.history[::-1]]
    reader = Ladders(size)
    for k in range(3):
        k = min(k, len(moves))
        ko = ko_of(game, history[k + 1], history[k]) if k + 1 < len(history) else None
        laddered, captures = reader.read(history[k], ko, own)
        found[17] |= captures if k == 0 else set()
        for plane in range(14 + k, 17) if k == len(moves) else (14 + k,):
            found[plane] |= laddered
    area = areas(game, board, game.suicide, tax)
    found[18], found[19] = area[own], area[-own]
    return found


def numbers(game, moves, komi, tax="none", num_past_moves=5):
    """The 19 global inputs, under area scoring."""
    moves, last = moves[::-1][:num_past_moves], game.size**2
    found = [0.0] * 19
    for k, move in enumerate(moves[:5]):
        found[k] = float(move == last)
    mine = max(-last - 20, min(last + 20, komi if game.to_play == WHITE else -komi))
    found[5] = mine / 20
    found[6] = float(game.ko_rule != "simple")
    found[7] = {"positional": 0.5, "situational": -0.5, "simple": 0.0}[game.ko_rule]
    found[8] = float(game.suicide)
    found[10], found[11] = float(tax != "none"), float(tax == "all")
    found[14] = float(game.passes > 0 and num_past_moves > 0)
    parity = last % 2
    above = mine - (math.floor((mine - parity) / 2) * 2 + parity)
    found[18] = above if above < 0.5 else 1 - above if above < 1.5 else above - 2
    return found
