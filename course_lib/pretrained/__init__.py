"""Readers of Hugging Face checkpoints, one small file for each family of models."""
