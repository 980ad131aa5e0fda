#!/bin/bash
# A run on four nodes in lockstep, which resumes after a lost node or the time limit:
#   sbatch deploy/slurm.sh
# and workers that may come and go, as many as there is room for:
#   sbatch --array=0-31 --requeue --time=4:00:00 --gres=gpu:1 --wrap \
#     'python -m train worker --out /shared/run'
# Both start in the root of a checkout, after `. .venv/bin/activate` of an environment with JAX for GPUs.
# --requeue starts a worker again after a preemption or a lost node, not after its --time.
# The cost of a million games of 9x9-gpu here cannot be estimated in advance, since the GPU compiler
# gives no times; `python -m train status --out ...` prints games/s. One v5e (a TPU) takes
# 1.3 hours, $1.58, by the estimate of `python -m train --preset 9x9-gpu --dry-run --target v5e`.
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=TERM@300
# Without this each process would use one GPU only, the one with its number on the node.
export JAX_LOCAL_DEVICE_IDS=0,1,2,3,4,5,6,7
srun --kill-on-bad-exit=1 \
  python -m train --preset 9x9-gpu --out /shared/run --coordinator auto --workers
status=$?
# 143: the time limit came before the end.
if [ $status = 143 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $status
