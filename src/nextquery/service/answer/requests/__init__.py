"""Requests to the engine, from the call that makes one."""
