"""The paper's protocol `anchored`: fixed anchors, fixed candidate sets, a new policy for each."""
