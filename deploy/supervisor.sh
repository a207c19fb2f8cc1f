#!/bin/sh
# Runs `pool train --resume CONFIG` until it is done, starting it again after a failure.
#
#     deploy/supervisor.sh CONFIG [argument of pool train]...
#
# COMMAND=recipe in the environment trains a recipe, COMMAND="machines --resume" a share of a run on several machines.
#
# Not started again: 0 (done), 2 and 65 (config or data: it would fail the same way), 126 and 127 (no such command),
# 129, 130, 138, 143 and 152 (a signal stopped it). Everything else is: after PAUSE seconds, then twice as many each time, up to
# PAUSE_MAX; once a run has lasted LONG seconds, after PAUSE again.
#
# SIGTERM is passed on: the run finishes its step, writes a checkpoint and ends, and this script with it; a second
# SIGTERM stops it at once. Ctrl-C and a closed terminal reach the run by themselves.
set -u

POOL=${POOL:-pool}             # the command; may be several words, such as "python -m pool"
COMMAND=${COMMAND:-train --resume}
PAUSE=${PAUSE:-5}
PAUSE_MAX=${PAUSE_MAX:-300}
LONG=${LONG:-600}

say() { echo "supervisor.sh: $*" >&2; }

if [ $# -lt 1 ]; then
    say "usage: supervisor.sh CONFIG [argument of pool train]..."
    exit 2
fi

# Dumping the memory of a trainer delays its restart. POSIX has -c since 2024; a shell without it goes on.
# shellcheck disable=SC3045
ulimit -c 0 2>/dev/null || :

child=                         # pid of what is waited for: the run, or the pause before the next
pausing=                       # not empty: it is the pause
stop=                          # the exit code of the signal that has come
cut=                           # not empty: it came while waiting

# As long as the child is a copy of this shell, its trap would take the SIGTERM, and nobody would hear of it: the signal
# waits until the child has become the command, or has ended.
end_child() {
    if [ -z "$child" ]; then return; fi
    if [ -n "$pausing" ]; then
        kill -s KILL "$child" 2>/dev/null
        return
    fi
    while cmp -s "/proc/$$/cmdline" "/proc/$child/cmdline"; do :; done
    kill -s TERM "$child" 2>/dev/null
}

# After the function that they call: a shell runs the lines one after the other, and a signal may come between any two.
trap 'stop=143; cut=yes; end_child' TERM
trap 'stop=130; cut=yes; [ -z "$pausing" ] || end_child' INT
trap 'stop=129; cut=yes; [ -z "$pausing" ] || end_child' HUP

# Runs a command and sets $code. A signal cuts `wait` short, so that it has to be asked again; it answers 127 if it had
# the answer already.
run() {
    "$@" &
    child=$!
    if [ -n "$stop" ]; then end_child; fi    # it came before there was a child
    code=
    while :; do
        cut=
        wait "$child" 2>/dev/null            # without the shell's word about what killed it
        answer=$?
        if [ -z "$code" ] || [ "$answer" -ne 127 ]; then code=$answer; fi
        if [ -z "$cut" ]; then break; fi
    done
    child=
}

pause=$PAUSE
while [ -z "$stop" ]; do
    began=$(date +%s)
    # shellcheck disable=SC2086  # several words
    run $POOL $COMMAND "$@"
    case $code in 0 | 2 | 65 | 126 | 127 | 129 | 130 | 138 | 143 | 152) exit "$code" ;; esac
    if [ -n "$stop" ]; then exit "$code"; fi
    if [ $(($(date +%s) - began)) -ge "$LONG" ]; then pause=$PAUSE; fi
    say "the run ended with code $code; again in $pause s"
    pausing=yes
    run sleep "$pause"
    pausing=
    pause=$((pause * 2))
    if [ "$pause" -gt "$PAUSE_MAX" ]; then pause=$PAUSE_MAX; fi
done
exit "$stop"
