"""Pools for asyncio: the same verbs awaited, and environments checked out one by one."""
