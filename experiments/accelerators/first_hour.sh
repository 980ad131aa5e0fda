#!/usr/bin/env bash
# The first hour on a machine with a TPU or a GPU: is everything right there, how fast is it, and how far
# are the estimates off?
#
#   experiments/accelerators/first_hour.sh v5e|v6e|v5p|h100 [FOLDER]
#
# From a checkout with .venv (see README.md). Rows, logs and a run go to FOLDER, runs/first-hour if none is
# given. A step that fails, or takes longer than it may, is named at the end, and the next one goes on; the
# same command goes on with rows and the run. Exit status: 0 if every step is done, else 1.
set -uo pipefail
cd "$(dirname "$0")/../.."

case ${1:-} in
  v5e | v6e | v5p | h100) target=$1 ;;
  *) echo "usage: $0 v5e|v6e|v5p|h100 [FOLDER]" >&2; exit 2 ;;
esac
out=${2:-runs/first-hour} python=.venv/bin/python
mkdir -p "$out"
failed=()

step() { # NAME MINUTES COMMAND...
  local name=$1 minutes=$2
  shift 2
  echo "$(date +%T) $name, at most $minutes minutes: $out/$name.log"
  timeout --kill-after=30 "${minutes}m" "$@" >"$out/$name.log" 2>&1 || failed+=("$name")
  tail -n 3 "$out/$name.log"
}

step device 2 $python -c "
import jax
print(jax.__version__, jax.devices())
assert jax.default_backend() != 'cpu', 'JAX sees only a CPU: install it with its extra for the device'"

# Whole numbers must be the same everywhere: rules, playouts, trees against their plain oracles.
step exact 12 $python -m pytest -q tests/go/test_golden.py tests/go/test_random_games.py tests/playouts \
  tests/search/test_exact.py tests/search/test_figures.py tests/search/test_large_batches.py

# The table with measured columns beside the estimates; rows are kept as they come.
step rules 5 $python -m experiments.accelerators.run --target "$target" --skip --out "$out/rows.jsonl" \
  --texts "$out/texts" --programs rules playouts-9x9
step programs 25 $python -m experiments.accelerators.run --target "$target" --skip --out "$out/rows.jsonl" \
  --texts "$out/texts" --timeout 600 --programs search puct rave play-9x9-gpu learn-9x9-gpu playouts-19x19
step table 1 $python -m experiments.accelerators.run --target "$target" --table --out "$out/rows.jsonl" \
  --before experiments/accelerators/results/before.jsonl
cat "$out/table.log"

# Does it learn there? The same command goes on with the run afterwards.
step train 14 $python -m train --preset 9x9-gpu --minutes 12 --out "$out/9x9"

if ((${#failed[@]})); then
  echo "not done: ${failed[*]}; their logs are in $out"
  exit 1
fi
echo "all done; $out has the rows, the texts and the run"
