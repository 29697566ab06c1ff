"""Protocol `stream`: sessions in order of time, and one model that keeps learning."""
