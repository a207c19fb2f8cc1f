#!/bin/bash
# A run on two nodes. The key is made once: pool machines --new-key run.key
#SBATCH --nodes=2 --ntasks-per-node=1 --cpus-per-task=16 --time=24:00:00
#SBATCH --signal=USR1@300 --requeue
srun --kill-on-bad-exit=0 pool machines "${1:-first.toml}" --resume --key "${2:-run.key}"
code=$?
# 138: stopped by SIGUSR1 before the time limit; 75: a machine was lost, or another one was stopped
if [ "$code" -eq 138 ] || [ "$code" -eq 75 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
