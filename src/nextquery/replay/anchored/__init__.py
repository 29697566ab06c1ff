"""Protocol `anchored`, the paper's: fixed anchors, fixed candidate sets, a new policy each."""
