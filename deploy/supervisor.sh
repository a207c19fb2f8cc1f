#!/bin/sh
# Runs `pool train CONFIG --resume` until it is done, starting it again after a failure.
#
#     deploy/supervisor.sh CONFIG [argument of pool train]...
#
# Not started again: 0 (done), 2 and 65 (config or data: it would fail the same way), 126 and 127 (no such command),
# 129, 130 and 143 (a signal stopped it). Everything else is: after PAUSE seconds, then twice as many each time, up to PAUSE_MAX;
# once a run has lasted LONG seconds, after PAUSE again.
#
# SIGTERM is passed on: the run finishes its step, writes a checkpoint and ends, and this script with it; a second
# SIGTERM stops it at once. Ctrl-C and a closed terminal reach the run by themselves.
set -u
umask 077

POOL=${POOL:-pool}             # the command; may be several words, such as "python -m pool"
PAUSE=${PAUSE:-5}
PAUSE_MAX=${PAUSE_MAX:-300}
LONG=${LONG:-600}

say() { echo "supervisor.sh: $*" >&2; }

if [ $# -lt 1 ]; then
    say "usage: supervisor.sh CONFIG [argument of pool train]..."
    exit 2
fi

ulimit -c 0                    # dumping the memory of a trainer delays its restart
ulimit -n "$(ulimit -H -n)" 2>/dev/null || say "the limit of open files stays at $(ulimit -n)"

child=                         # pid of what is waited for
stop=                          # not empty: a signal has come
cut=                           # not empty: it came while waiting
trap 'stop=yes; cut=yes; [ -z "$child" ] || kill -s TERM "$child" 2>/dev/null' TERM
trap 'stop=yes; cut=yes' INT HUP

# Waits for $child and sets $code. A signal cuts `wait` short, so that it has to be asked again; it answers 127 if
# it had the answer already.
await() {
    code=
    while :; do
        cut=
        wait "$child"
        answer=$?
        if [ -z "$code" ] || [ "$answer" -ne 127 ]; then code=$answer; fi
        if [ -z "$cut" ]; then break; fi
    done
    child=
}

pause=$PAUSE
while [ -z "$stop" ]; do
    began=$(date +%s)
    # shellcheck disable=SC2086
    $POOL train "$@" --resume &
    child=$!
    if [ -n "$stop" ]; then kill -s TERM "$child" 2>/dev/null; fi    # it came before there was a child
    await
    ended=$code
    case $ended in 0 | 2 | 65 | 126 | 127 | 129 | 130 | 143) exit "$ended" ;; esac
    if [ -n "$stop" ]; then exit "$ended"; fi
    if [ $(($(date +%s) - began)) -ge "$LONG" ]; then pause=$PAUSE; fi
    say "the run ended with code $ended; again in $pause s"
    sleep "$pause" &
    child=$!
    await
    pause=$((pause * 2))
    if [ "$pause" -gt "$PAUSE_MAX" ]; then pause=$PAUSE_MAX; fi
done
exit 130
