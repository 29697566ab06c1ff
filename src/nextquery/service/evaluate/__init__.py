"""What policies that did not run would have earned, from the log of the one that did."""
