"""The service: the recommender behind an event log and HTTP.

The event log is the source of truth. `log/` writes and reads it, `model/` turns its events into the
state of the model, and `engine/` answers requests from that state. `http/` adds access control and
`routes/` the endpoints; `page/` is the web page, and `settings` configures all of it. `erasure/`
forgets people, `exchange/` serves other programs, `maintain/` backs up, repairs and takes over.
"""
