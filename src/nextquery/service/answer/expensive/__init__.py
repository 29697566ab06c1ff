"""Expensive requests: maps, simulated users and exports, which let recommendations go first."""
