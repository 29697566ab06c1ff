"""Training of the neural rivals, with torch: one method per file, one loop for all of them.

The loop, its checkpoints and its devices are those of `nextquery.encode.train`.
"""
