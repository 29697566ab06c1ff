"""What a pool remembers of its log, under keyed hashes, so that later days can be added to it."""
