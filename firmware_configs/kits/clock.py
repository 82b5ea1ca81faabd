"""The clock of a board without a battery, in install.sh.

A Raspberry Pi without a time server starts in the past, where no certificate of its kit is valid yet, so it could reach
neither the broker nor an index. If the clock is earlier than the creation of the kit, it is set to that time.

Persistent timers of systemd, such as apt's daily jobs, are years late then, and would all start at once, beside the
installation. So their last run is taken to be now: they are stopped, and started with new time stamps.
"""

from __future__ import annotations

__all__ = ["SET_CLOCK"]

#: Uses `here`, `root` and `say` of install.sh, and `set -eu`. systemd-timesyncd starts from the time of its file.
SET_CLOCK = """\
set_clock() {
    made=$(sed -n 's/^ *"created": *"\\([0-9TZ:-]*\\)".*/\\1/p' "$here/kit.json")
    [ -n "$made" ] && seconds=$(date -u -d "$made" +%s) || return 0
    [ "$(date +%s)" -lt "$seconds" ] || return 0
    clock=/var/lib/systemd/timesync/clock
    stamps=/var/lib/systemd/timers timers= changed=
    for stamp in "$stamps"/stamp-*.timer; do
        timer=${stamp##*/stamp-}
        [ ! -e "$stamp" ] || ! systemctl --quiet is-active "$timer" 2>/dev/null || timers="$timers $timer"
    done
    [ -z "$timers" ] || systemctl stop $timers || true
    ! date -u -s "@$seconds" >/dev/null || changed=1
    for timer in ${changed:+$timers}; do touch "$stamps/stamp-$timer"; done
    [ -z "$timers" ] || systemctl start $timers || true
    if [ -z "$changed" ]; then
        say "the clock is earlier than $made, when this kit was made, and cannot be set"
        return 0
    fi
    if [ -d "${clock%/*}" ]; then
        touch "$clock" && chown --reference="${clock%/*}" "$clock" || true
    fi
    say "the clock was earlier than this kit; it is set to $made, when the kit was made"
}
[ -n "$root" ] || [ ! -f "$here/kit.json" ] || set_clock
"""
