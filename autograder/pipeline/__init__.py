"""The instructor's side: notebooks are made, submissions are collected, run in a sandbox, judged and recorded."""
