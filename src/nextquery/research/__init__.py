"""Experiments: replays, their reports, rivals, and bandits for very many arms."""
