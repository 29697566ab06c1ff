"""Figures, tables and reports, made from result files alone."""
