"""Words of the log itself, weighed and counted: TF-IDF, and word vectors."""
