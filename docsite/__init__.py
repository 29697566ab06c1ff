"""The documentation site: ``python -m docsite`` builds it, offline, into docs/_site."""
