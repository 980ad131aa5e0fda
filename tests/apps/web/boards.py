"""A board without a browser, and players that do not search."""

from __future__ import annotations

from gozero.apps.web.config import WebConfig
from gozero.apps.web.session import Session
from gozero.apps.web.thinking import Thinking
from gozero.go import coords

SIZE = 5


class Unthinking(Thinking):
    """Plays the first empty point, passes once there are four stones, and analyses at once."""

    def __init__(self):
        super().__init__(WebConfig.of_flags({"player": "random", "size": SIZE}), "test")
        self.asked: list[list[int]] = []

    def choose(self, name, variations):
        stones = variations.game.stones().reshape(-1)
        return int((stones != 0).argmin()) if (stones != 0).sum() < 4 else len(stones)

    def waiting_text(self, name, rules):
        return None

    def analyse(self, variations, moves, turns, tell):
        self.asked.append(turns)
        name = coords.to_gtp(variations.size, 0)
        move = {"move": name, "visits": 9, "winrate": 0.5, "scoreLead": 0.0, "prior": 1.0}
        for turn in turns:
            tell(
                {
                    "turnNumber": turn,
                    "isDuringSearch": False,
                    "rootInfo": {"winrate": 0.25 + turn / 100, "scoreLead": -1.5, "visits": 10},
                    "moveInfos": [{**move, "pv": [name, "pass"]}],
                    "ownership": [0.5] * variations.size**2,
                    "policy": [0.0] * variations.size**2 + [float("nan")],
                }
            )
        return "1"

    def cancel(self, id_):
        pass


class Board:
    """A session, and the messages that it told its board; engines move when it is their turn."""

    def __init__(self, folder=None):
        self.sent: list[dict] = []
        self.thinking = Unthinking()
        self.session = Session(self.thinking, self.sent.append, folder)

    def request(self, do, **fields):
        """Send a message, let engines move, and return what the board was sent since."""
        count = len(self.sent)
        self.session.take({"do": do, **fields})
        self.session.settle()
        return self.sent[count:]

    def new(self, black="you", white="you", **more):
        """Begin a new game."""
        return self.request(
            "new", **{"size": SIZE, "komi": 7, "black": black, "white": white, **more}
        )

    def last(self, kind):
        """The last message of a kind."""
        return [message for message in self.sent if message["tell"] == kind][-1]
