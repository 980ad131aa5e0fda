"""Whole sessions with the engine as a process: it keeps its time, and obeys quickly. Slow.

Run them on an idle machine: `uptime` should show a load below 0.5.
"""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time

import pytest

from gozero.apps.gtp.client import GtpClient

pytestmark = pytest.mark.slow
OURS = [sys.executable, "-m", "gozero.apps.cli", "gtp", "--evaluator", "playout", "--size", "5"]
MOST_MOVES = 60  # in a game


class Timer:
    """A player's time as a referee keeps it, in either system of byo-yomi.

    Args:
      main: main time in seconds.
      period: seconds of each period after the main time; 0: none.
      stones: moves per period.
    """

    def __init__(self, main: float, period: float, stones: int):
        self.left, self.period, self.stones, self.to_play = main, period, stones, 0

    def time_left(self) -> str:
        return f"{max(self.left, 0):.2f} {self.to_play}"

    def spend(self, seconds: float) -> bool:
        """Charge the seconds of a move; returns whether it was in time."""
        self.left -= seconds
        if self.left < 0 and self.to_play == 0 and self.period > 0:
            self.left, self.to_play = self.left + self.period, self.stones
        if self.left < 0:
            return False
        if self.to_play > 0:
            self.to_play -= 1
            if self.to_play == 0:
                self.left, self.to_play = self.period, self.stones
        return True


def play_on_time(engine: GtpClient, main: float, period: float, stones: int) -> tuple[int, float]:
    """Play a game in which the engine plays both colours.

    Returns:
      (the number of moves, the seconds of the longest).

    Raises:
      AssertionError: a colour has lost on time.
    """
    engine.send("clear_board")
    timers, passes, longest = [Timer(main, period, stones) for _ in "bw"], 0, 0.0
    for number in range(MOST_MOVES):
        colour, timer = "bw"[number % 2], timers[number % 2]
        engine.send(f"time_left {colour} {timer.time_left()}")
        begun, time_left = time.monotonic(), timer.time_left()
        move = engine.send(f"genmove {colour}")
        took = time.monotonic() - begun
        assert timer.spend(took), f"move {number + 1}: {took:.3f} s, of {time_left}"
        longest, passes = max(longest, took), passes + 1 if move == "pass" else 0
        if passes == 2 or move == "resign":
            return number + 1, longest
    return MOST_MOVES, longest


SYSTEMS = [
    (34, "time_settings 2.5 0 0", 2.5, 0.0, 0),
    (33, "kgs-time_settings byoyomi 1 1 5", 1.0, 1.0, 1),
    (33, "kata-time_settings canadian 1 2 4", 1.0, 2.0, 4),
]


@pytest.mark.parametrize(("games", "line", "main", "period", "stones"), SYSTEMS)
def test_no_game_is_lost_on_time(games, line, main, period, stones):
    """100 games in all."""
    with GtpClient([*OURS, "--simulations", "20000"], timeout=300) as engine:
        engine.send(line)
        played = [play_on_time(engine, main, period, stones) for _ in range(games)]
    longest = max(longest for _, longest in played)
    moves = sum(number for number, _ in played)
    print(f"{line}: {games} games, {moves} moves, the longest {longest:.3f} s, none lost on time")
    assert longest > 0.02  # it does use some time


class Session:
    """The engine's process, and the lines that it prints with their times."""

    def __init__(self, *flags: str, **environment: str):
        self._process = subprocess.Popen(
            [*OURS, *flags],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.reports = 0  # analysis lines so far
        self._said: queue.Queue[tuple[float, str]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self.reports += line.startswith("info ")
            self._said.put((time.monotonic(), line.rstrip("\n")))

    def send(self, line: str) -> float:
        sent = time.monotonic()
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return sent

    def wait_for(self, start: str, timeout: float = 120.0) -> float:
        """The time of the next line that starts with `start`; skips lines before it."""
        while True:
            when, line = self._said.get(timeout=timeout)
            if line.startswith(start):
                return when

    def end(self) -> int:
        self._process.stdin.close()
        status = self._process.wait(60)
        self._reader.join(60)
        self._process.stdout.close()
        return status


def test_commands_are_obeyed_within_200_ms():
    session, late = Session("--simulations", "100000", "--no-reuse"), []
    for line in ("1 kata-analyze b 10 ownership true", "2 lz-analyze 10 minmoves 5"):
        session.send(line)
        session.wait_for("info ")
        time.sleep(1.0)
        for number in range(20):  # one at a time
            sent = session.send(f"{100 + number} name")
            late.append(session.wait_for(f"={100 + number}") - sent)
            session.send(line)
            session.wait_for("info ")
    session.send("3 genmove b")
    session.send("stop")
    session.wait_for("=3")  # compiled
    for number in range(10):
        session.send(f"{200 + number} genmove w")
        time.sleep(0.5)
        sent = session.send("stop")
        late.append(session.wait_for(f"={200 + number}") - sent)
    session.send("quit")
    assert session.end() == 0
    late.sort()
    print("s until obeyed: median", round(late[len(late) // 2], 3), "longest", round(late[-1], 3))
    assert late[-1] < 0.2


def test_commands_sent_during_compilation_are_obeyed(tmp_path):
    """Even right after the start, while JAX is imported; and `quit` ends it while it compiles."""
    session, late = Session("--size", "6", JAX_COMPILATION_CACHE_DIR=str(tmp_path / "1")), []
    session.send("1 name")
    session.wait_for("=1")
    while not session.reports and len(late) < 200:
        number = 100 + len(late)
        sent = session.send(f"{number} kata-analyze b 10")
        late.append(session.wait_for(f"={number}") - sent)
        time.sleep(0.1)
    session.send("quit")
    assert session.end() == 0
    assert 20 < len(late) < 200
    session = Session("--size", "7", JAX_COMPILATION_CACHE_DIR=str(tmp_path / "2"))
    session.send("1 kata-analyze b 10")
    session.wait_for("=1")
    time.sleep(4.0)
    session.send("2 quit")
    session.wait_for("=2", timeout=5.0)
    assert session.end() == 0
    assert not session.reports
    late.sort()
    print(f"s until obeyed, of {len(late)}: median {late[len(late) // 2]:.3f}", *late[-5:])
    assert late[-1] < 0.2


SABAKI = os.environ.get("GOZERO_SABAKI", "")
DRIVER = """
const {Controller} = require('@sabaki/gtp')
const [path, ...args] = JSON.parse(process.argv[2])
const engine = new Controller(path, args, {})
const lines = []
const analyse = name => engine.sendCommand({name, args: ['B', '10']}, ({line}) => lines.push(line))
async function main() {
  engine.start()
  const listed = await engine.sendCommand({name: 'list_commands'})
  for (const name of ['lz-analyze', 'kata-analyze']) {
    const analysis = analyse(name)
    while (!lines.some(line => line.startsWith('info '))) await new Promise(r => setTimeout(r, 20))
    const aborted = await engine.sendCommand({name: 'protocol_version'})
    const response = await analysis
    console.log(JSON.stringify({name, error: response.error, aborted: aborted.content,
      listed: listed.content.split('\\n').includes(name), line: lines.find(x => x[0] == 'i')}))
    lines.length = 0
  }
  const moved = await engine.sendCommand({name: 'lz-genmove_analyze', args: ['B', '10']})
  console.log(JSON.stringify({moved: moved.content}))
  await engine.stop(10000)
}
main()
"""


def test_analysis_with_sabakis_client(tmp_path):
    """Tested with `@sabaki/gtp` 3.0.0."""
    if shutil.which("node") is None or not os.path.isdir(f"{SABAKI}/node_modules/@sabaki/gtp"):
        pytest.skip(
            "needs node; and GOZERO_SABAKI, a folder in which `npm install @sabaki/gtp` ran"
        )
    script = tmp_path / "driver.js"
    script.write_text(DRIVER)
    done = subprocess.run(
        ["node", script, json.dumps([*OURS, "--simulations", "200"])],
        env=os.environ | {"NODE_PATH": f"{SABAKI}/node_modules"},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lz, kata, moved = map(json.loads, done.stdout.splitlines())
    for report in (lz, kata):
        assert (report["error"], report["aborted"], report["listed"]) == (False, "2", True)
        assert report["line"].startswith("info move ")
    assert "." not in lz["line"]
    assert " scoreLead " in kata["line"]
    assert moved["moved"].splitlines()[-1].startswith("play ")
