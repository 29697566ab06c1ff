"""The database below the event log: connections, its file, its limits in time, its errors."""

from nextquery.service.log.database.connect import check_url, without_password

__all__ = ["check_url", "without_password"]
