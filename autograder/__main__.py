"""`python -m autograder`."""

from autograder.pipeline.cli import app

app(prog_name="python -m autograder")
