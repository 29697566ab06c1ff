"""The three phases of sampling, and who gets the rows of a round."""
