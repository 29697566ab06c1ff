"""The database below the event log: connections, its file, its limits in time, its errors."""

from nextquery.service.log.database.connect import check_url as check_url
from nextquery.service.log.database.connect import without_password as without_password
