"""A small GTP engine for matches: it plays the given moves, then passes.

    scripted.py GAME [GAMES:WORD[@COMMAND]]...

WORD is its next answer to COMMAND (default: genmove) in these GAMES: numbers with commas, or `all`.
It is a vertex, `resign`, `ANY` for a point of 3x3 not played at yet (it may be suicide), `FILE=`
and a path for that file's contents, `ON` to keep running after `quit`, or something that no
engine should do. `LOG=` and a path is no answer: all commands are written to that file.
"""

import os
import pathlib
import sys
import time

game, *plan = sys.argv[1:]
script = [
    (command or "genmove", word)
    for games, answer in (x.split(":", 1) for x in plan)
    for word, _, command in [answer.partition("@")]
    if game in games.split(",") or games == "all"
]
logs = [word[4:] for _, word in script if word.startswith("LOG=")]
script = [(command, word) for command, word in script if not word.startswith("LOG=")]


def planned(command: str, usual: str) -> str:
    match = next((entry for entry in script if entry[0] == command), None)
    if match is None:
        return usual
    script.remove(match)
    word = match[1]
    if word == "HANG":
        time.sleep(600)
    if word == "DIE":
        os._exit(7)
    if word.startswith("ONCE="):  # dies if the file does not exist yet
        path = pathlib.Path(word[5:])
        if not path.exists():
            path.touch()
            os._exit(7)
        return "pass"
    if word.startswith("SLEEP="):
        time.sleep(float(word[6:]))
        return "pass"
    if word.startswith("FILE="):
        return pathlib.Path(word[5:]).read_text()
    if word == "ANY":
        return next((point for point in points if point not in used), "pass")
    return word


points, used = [column + row for column in "BAC" for row in "213"], set()
for line in sys.stdin:
    words = line.split()
    for log in logs:
        with pathlib.Path(log).open("a") as file:
            file.write(line)
    usual = {"name": "Scripted", "version": "1", "genmove": "pass", "known_command": "true"}
    usual = usual.get(words[0], "")
    answer = planned(words[0], usual)
    if words[0] in ("play", "genmove"):
        used.add((words[2] if words[0] == "play" else answer).upper())
    says = {"NONSENSE": ["what?"], "REFUSE": ["?", "no"]}.get(answer, ["=", answer])
    print(*says, end="\n\n", flush=True)
    if words[0] == "quit" and answer != "ON":
        break
else:
    if answer == "ON":
        time.sleep(600)
