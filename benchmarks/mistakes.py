"""How many known mistakes of the catalogue are named rightly, over 20 seeds.

python -m benchmarks.mistakes
"""

import autograder

SEEDS = range(20)


def main() -> None:
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


if __name__ == "__main__":
    main()
