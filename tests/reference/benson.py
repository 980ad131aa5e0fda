"""Benson's algorithm on sets of points, as the paper has it. The oracle of pass-alive."""

from __future__ import annotations

from tests.reference.go import EMPTY, ReferenceGame


def pass_alive(game: ReferenceGame, colour: int) -> tuple[set[int], set[int]]:
    """(stones, territory) of one colour, from the board of `game`.

    Territory is the enclosed regions in which every empty point touches the colour and all
    bordering chains are alive.
    """
    board = game.board
    chains = _components(game, lambda p: board[p] == colour)
    regions = _components(game, lambda p: board[p] != colour)
    liberties = {chain: game.chain(board, min(chain))[1] for chain in chains}
    empties = {region: {p for p in region if board[p] == EMPTY} for region in regions}
    borders = {
        region: {chain for chain in chains if any(set(game.neighbours[p]) & chain for p in region)}
        for region in regions
    }
    alive, healthy = set(chains), set(regions)
    while True:
        kept = {
            chain
            for chain in alive
            if sum(bool(empties[r]) and empties[r] <= liberties[chain] for r in healthy) >= 2
        }
        sound = {region for region in healthy if borders[region] <= kept}
        if kept == alive and sound == healthy:
            break
        alive, healthy = kept, sound
    stones = set().union(*alive)
    reached = set().union(*(liberties[chain] for chain in alive))
    territory = [region for region in healthy if alive and empties[region] <= reached]
    return stones, set().union(*territory)


def _components(game, wanted):
    left = {p for p in range(game.size**2) if wanted(p)}
    found = []
    while left:
        todo = [left.pop()]
        component = set(todo)
        while todo:
            for q in game.neighbours[todo.pop()]:
                if q in left:
                    left.remove(q)
                    component.add(q)
                    todo.append(q)
        found.append(frozenset(component))
    return found
