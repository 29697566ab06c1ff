"""The service: the recommender behind an event log and HTTP.

The event log is the source of truth. `log/` writes and reads it, `model/` turns its events into the
state of the model, `answer/` answers requests from that state, `http/` adds routes and access
control, `settings/` configures all of it, and `page/` is the web page. Only `http/` and `server.py`
know HTTP. A room imports only from the rooms before it: log, settings, model, answer, http.
"""
