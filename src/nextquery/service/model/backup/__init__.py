"""Backups of a store that prove themselves, and their restoration on either database."""
