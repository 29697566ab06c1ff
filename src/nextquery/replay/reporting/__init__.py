"""Figures, tables and the report, made from result files alone."""
