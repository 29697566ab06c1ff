"""The service: recommends and learns over HTTP, and loses nothing.

The event log is the truth. A *writer* appends to it and confirms only what is durable; a *learner*
reads it in order and so arrives at the same state wherever it runs; the *engine* answers from that
state. Nothing in this room but `app` knows of HTTP.
"""
