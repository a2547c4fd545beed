"""``python -m simulation --seed 1 --seeds 200 --steps 2000``: play seeds and say what failed."""

import argparse
import sys

from simulation.play import STEPS, play


def main() -> int:
    """Play the seeds; 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m simulation")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--steps", type=int, default=STEPS, help="how many steps with mishaps each has")
    asked = parser.parse_args()
    failed = 0
    for seed in range(asked.seed, asked.seed + asked.seeds):
        verdict = play(seed, asked.steps)
        if verdict.name is not None:
            failed += 1
            print(f"seed {seed}, step {verdict.steps}: {verdict.name}: {verdict.what}", flush=True)
    print(f"{asked.seeds} seeds of {asked.steps} steps, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
