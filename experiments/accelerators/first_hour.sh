#!/usr/bin/env bash
# The first hour on a machine with a TPU or a GPU: is everything correct there, how fast is it, and how far
# off are the estimates? With 2 after the folder also the next two hours: the whole test suite, an hour of
# learning 9x9 from zero, and a match of the trained network against GNU Go (apt-get install gnugo).
#
#   experiments/accelerators/first_hour.sh v5e|v6e|v5p|h100|cpu [FOLDER [2]]
#
# Run it in a checkout with .venv (see README.md; PYTHON=... for another interpreter). Rows, logs and a run go to
# FOLDER, by default runs/first-hour. A step that fails or exceeds its time limit is named at the end, and the
# next one starts; the same command resumes the rows and the run. Exit status: 0 if every step is done, else 1.
# cpu is a rehearsal on any machine: the same steps, so small that they take a few minutes.
set -uo pipefail
cd "$(dirname "$0")/../.."

case ${1:-} in
  v5e | v6e | v5p | h100)
    exact=(tests/go/test_golden.py tests/go/test_random_games.py tests/playouts tests/search/test_exact.py
      tests/search/test_figures.py tests/search/test_large_batches.py)
    first=(rules playouts-9x9)
    more=(search puct rave play-9x9-gpu learn-9x9-gpu playouts-19x19)
    musts=(playouts-9x9=20e6 puct-9x9=0.5e6) # units per second
    run=(--preset 9x9-gpu)
    minutes=12 hour=60 suite=(tests) match=()
    ;;
  cpu)
    exact=(tests/go/test_golden.py)
    first=(rules-9x9-simple)
    more=(play-3x3 learn-3x3)
    musts=(rules-9x9-simple=1e3)
    run=(--preset 3x3 --iterations 2 --batch 16 --simulations 4 --min-rows 64 --batch-size 32)
    minutes=2 hour=2 suite=(tests/go/test_golden.py) match=(--games 2 --weights gozero/play/data/9x9.safetensors)
    ;;
  *) echo "usage: $0 v5e|v6e|v5p|h100|cpu [FOLDER [2]]" >&2; exit 2 ;;
esac
target=$1 out=${2:-runs/first-hour} hours=${3:-1} python=${PYTHON:-.venv/bin/python}
mkdir -p "$out"
failed=()

step() { # NAME MINUTES COMMAND...
  local name=$1 minutes=$2
  shift 2
  echo "$(date +%T) $name, at most $minutes minutes: $out/$name.log"
  timeout --kill-after=30 "${minutes}m" "$@" >"$out/$name.log" 2>&1 || failed+=("$name")
  tail -n 3 "$out/$name.log"
}

rows() { # PROGRAM...: rows with measured columns beside the estimates, saved as they come; fails if one of them has an error
  $python -m experiments.accelerators.run --target "$target" --skip --out "$out/rows.jsonl" \
    --texts "$out/texts" --timeout 600 --programs "$@"
}
export -f rows
export python target out

step device 2 $python -c "
import jax
from gozero.compile import ahead
print(jax.__version__, jax.devices())
assert jax.default_backend() == ahead.target('$target').platform, 'install JAX with its extra for the device'"

# Integers must be the same everywhere: rules, playouts and trees against their plain oracles.
step exact 12 $python -m pytest -q "${exact[@]}"

step rules 5 bash -c 'rows "$@"' rows "${first[@]}"
step programs 25 bash -c 'rows "$@"' rows "${more[@]}"
if [[ $target == h100 ]]; then # a search in one launch: README.md, Launches of a simulation
  buffers=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,COLLECTIVES,DYNAMIC_SLICE_FUSION,CONVOLUTION,WHILE,CONDITIONAL
  step one-launch 8 env "XLA_FLAGS=--xla_gpu_enable_command_buffer=$buffers" $python -m experiments.accelerators.run \
    --target h100 --programs search-9x9 puct-9x9 rave-9x9 --out "$out/one-launch.jsonl"
fi
step table 1 $python -m experiments.accelerators.run --target "$target" --table --out "$out/rows.jsonl" \
  --before experiments/accelerators/results/before.jsonl
cat "$out/table.log" # measurements beside estimates, row by row
step musts 1 $python -m experiments.accelerators.first_hour "$out/rows.jsonl" --must "${musts[@]}"

# Does it learn there? The same command resumes the run later.
step train $((minutes + 2)) $python -m train "${run[@]}" --minutes "$minutes" --out "$out/run"

if [[ $hours == 2 ]]; then
  # One process, since a TPU allows no other and each takes most of a GPU's memory.
  step suite 60 $python -m pytest -q "${suite[@]}"
  # From zero, in a run of its own.
  step zero $((hour + 3)) $python -m train "${run[@]}" --minutes "$hour" --out "$out/zero"
  [[ ${match[*]} ]] || match=(--weights "$out/zero/weights.safetensors")
  step gnugo 60 $python -m experiments.zero_strength.run --only 9x9-gnugo "${match[@]}" --out "$out/gnugo"
  step score 1 $python -m experiments.accelerators.first_hour --score "$out/gnugo/results.csv" --least 0.8
fi

if ((${#failed[@]})); then
  echo "not done: ${failed[*]}; their logs are in $out"
  exit 1
fi
echo "all done; $out has the rows, the texts and the run"
