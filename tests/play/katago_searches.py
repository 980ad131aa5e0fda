"""Records KataGo's own searches of some positions for `test_katago_search`.

    python -m tests.play.katago_searches KATAGO NETWORK.bin.gz

queries KataGo's analysis engine and writes katago_searches.json beside this file: 201 visits of
each position, without and with score utility, and without the features that gozero does not have.
The current file is from KataGo 1.17.2 (Eigen) and g170-b6c96-s175395328-d26788732.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile

FILE = pathlib.Path(__file__).with_name("katago_searches.json")
VISITS = 201

POSITIONS = (
    # komi, moves
    (6.5, ""),
    (7, "A8 E5 F3 F4 G4 G5 G3 D4 H5 G6 B6 C7"),
    (5.5, "F5 B7 D5 F3 G3 G2 E3 F4 G4 E4 E5 D4 C4 C3 C5 E7 F8 G5 H2 E2 G6 E8 C7 G8"),
    (
        5.5,
        "G9 F7 D4 D6 F4 G6 H5 H6 C6 C7 B6 G4 D7 G3 F5 D8 G5 E2 D2 E3 D3 H4 J6 E4 E6 D5 E7 "
        "E5 E8 F6 F8 F3 C5 H7 D1 E9",
    ),
    (
        7,
        "E9 J4 E4 D6 G4 G6 E6 E5 F5 D5 E7 D4 F6 E3 F3 F4 C7 F2 E4 H3 H5 D2 B5 B4 C5 D7 D8 "
        "C6 B6 C4 J5 B7 C8 A6 E2 F4 G3 G5 E4 E1 G2 H4 F4 H2 D3 C3 H7 G7",
    ),
    (
        9,
        "F2 F9 E6 C6 C4 F6 F7 G7 F5 G6 D6 G5 F4 C5 D4 C8 C7 B4 D8 F8 B7 C3 C2 D5 D3 G3 G4 "
        "E7 B8 D7 E5 H4 F3 G2 H5 H3 G1 H1 F1 D9 C9 E9 C8 B2 B3 A3 A5 C3 B5 D2 B3 B1 A4 F7 "
        "B6 E8 J2 J3 E2 J7",
    ),
)
RULES = {
    **{"ko": "POSITIONAL", "scoring": "AREA", "tax": "NONE", "suicide": True},
    **{"hasButton": False, "friendlyPassOk": False, "whiteHandicapBonus": "0"},
}
NOT_TAKEN_OVER = {
    **{"useGraphSearch": False, "useNoisePruning": False, "useUncertainty": False},
    **{"subtreeValueBiasFactor": 0, "valueWeightExponent": 0, "rootEndingBonusPoints": 0},
    **{"rootSymmetryPruning": False, "rootPruneUselessMoves": False, "conservativePass": False},
    **{"enablePassingHacks": False, "enableMorePassingHacks": False},
}
SETTINGS = {
    **NOT_TAKEN_OVER,
    **{"reportAnalysisWinratesAs": "SIDETOMOVE", "wideRootNoise": 0, "rootNoiseEnabled": False},
    **{"cpuctUtilityStdevScale": 0.85, "rootFpuReductionMax": 0.1, "maxVisits": VISITS},
    **{"nnForcedSymmetry": 0, "nnRandomize": False, "ignorePreRootHistory": False},
    # The cache does not distinguish histories.
    **{"nnCacheSizePowerOfTwo": -1, "nnMutexPoolSizePowerOfTwo": 10, "nnMaxBatchSize": 1},
    **{"numAnalysisThreads": 1, "numSearchThreadsPerAnalysisThread": 1},
    **{"numNNServerThreadsPerModel": 1, "logToStderr": False},
}
SCORE = {
    **{"staticScoreUtilityFactor": 0.1, "dynamicScoreUtilityFactor": 0.3},
    **{"dynamicScoreCenterZeroWeight": 0.2, "dynamicScoreCenterScale": 0.75},
}
"""The defaults of KataGo's GTP engine."""

NO_SCORE = {"staticScoreUtilityFactor": 0, "dynamicScoreUtilityFactor": 0}


def _query(number: int, score: bool) -> dict:
    komi, moves = POSITIONS[number]
    return {
        "id": f"{number} {score}",
        "moves": [["BW"[i % 2], move] for i, move in enumerate(moves.split())],
        "initialPlayer": "B",
        "rules": RULES,
        "komi": komi,
        "boardXSize": 9,
        "boardYSize": 9,
        "maxVisits": VISITS,
        "overrideSettings": SCORE if score else NO_SCORE,
    }


def _row(answer: dict) -> dict:
    """For each move, in KataGo's order: visits, lower bound of the utility, wins minus losses."""
    number, score = answer["id"].split()
    komi, moves = POSITIONS[int(number)]
    result = {
        info["move"]: [
            info["visits"],
            round(info["utilityLcb"], 3),
            round(2 * info["winrate"] - 1, 3),
        ]
        for info in answer["moveInfos"]
    }
    return {"komi": komi, "moves": moves, "score": score == "True", "found": result}


def main(katago: str, network: str) -> None:
    queries = [_query(i, score) for score in (False, True) for i in range(len(POSITIONS))]
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "analysis.cfg"
        lines = [f"{name} = {json.dumps(value)}" for name, value in SETTINGS.items()]
        config.write_text("\n".join([*lines, f"logDir = {folder}"]).replace('"', ""))
        stdout = subprocess.run(
            [katago, "analysis", "-config", str(config), "-model", network],
            input="\n".join(map(json.dumps, queries)) + "\n",
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    answers = {answer["id"]: answer for answer in map(json.loads, stdout.splitlines())}
    rows = [json.dumps(_row(answers[query["id"]])) for query in queries]
    FILE.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
