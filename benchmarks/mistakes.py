"""How many known mistakes of the catalogue are named rightly, over three seeds.

python -m benchmarks.mistakes           # prints them, writes benchmarks/results/mistakes.json
"""

import autograder
from benchmarks.common import machine, write

SEEDS = range(3)  # `make test-all` judges the same on 20


def main() -> None:
    here = machine()  # before anything runs
    total = own = shared = lost = 0
    for name in autograder.names():
        exercise = autograder.get(name)
        for mistake in exercise.mistakes:
            verdicts = [autograder.judge(name, mistake.answer, seed) for seed in SEEDS]
            total += 1
            own += all(verdict.mistake == mistake.name for verdict in verdicts)
            shared += all(verdict.mistake in (mistake.name, *mistake.same_as) for verdict in verdicts)
            lost += all(verdict.points < verdict.max_points for verdict in verdicts)
    exercises = len(autograder.names())
    print(f"{exercises} exercises and questions, {total} mistakes, {len(SEEDS)} seeds each")
    print(f"lose points on every seed: {lost} of {total}")
    print(f"named by their own name on every seed: {own} of {total}; with those that share a sentence: {shared}")
    counts = {
        "exercises": exercises,
        "mistakes": total,
        "seeds": len(SEEDS),
        "lost": lost,
        "own": own,
        "shared": shared,
    }
    write("mistakes", {"machine": here, **counts})


if __name__ == "__main__":
    main()
