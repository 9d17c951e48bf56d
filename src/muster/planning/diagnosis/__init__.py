"""Why a gang waits, and what would help."""
