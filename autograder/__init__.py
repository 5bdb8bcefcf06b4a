"""Autograded exercises: checks in the notebook that name the mistake, and the same judgement for grades.

from autograder import check, hint, progress, use      # in a notebook
from autograder import judge, names, get     # in plain Python
"""

from autograder.check import check, hint, progress, start, use
from autograder.exercise import get, names
from autograder.judging import judge

__all__ = ["check", "get", "hint", "judge", "names", "progress", "start", "use"]
