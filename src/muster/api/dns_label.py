"""Names as DNS labels: what a namespace, a SubGroup and a part of a Pod's host name may be called."""

import re

LONGEST_LABEL = 63
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # for `fullmatch`; at most 63 characters
