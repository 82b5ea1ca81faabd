"""Whether another user could read a file: its permission bits and those of the folders above it."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError

__all__ = ["Account", "find_account"]


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine."""

    name: str
    group: str
    uid: int
    groups: frozenset[int]

    def may_read(self, path: Path) -> bool:
        """Whether it may read the file or list the folder `path`, by permission bits; root may."""
        if self.uid == 0:
            return True
        path = path.resolve()
        folders = all(self._has(folder.stat(), stat.S_IXOTH) for folder in path.parents)
        wanted = stat.S_IROTH | stat.S_IXOTH if path.is_dir() else stat.S_IROTH
        return folders and self._has(path.stat(), wanted)

    def _has(self, status: os.stat_result, bits: int) -> bool:
        if status.st_uid == self.uid:
            bits <<= 6
        elif status.st_gid in self.groups:
            bits <<= 3
        return status.st_mode & bits == bits


def find_account(user: str | int) -> Account:
    """The account with this name, or of this number."""
    try:
        entry = pwd.getpwnam(user) if isinstance(user, str) else pwd.getpwuid(user)
    except KeyError:
        make = f"sudo useradd --system --shell /usr/sbin/nologin {user}"
        raise ConfigError(f"there is no user {user!r}; make it: {make}") from None
    groups = frozenset(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return Account(entry.pw_name, grp.getgrgid(entry.pw_gid).gr_name, entry.pw_uid, groups)
