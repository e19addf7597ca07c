#!/bin/sh
# Runs tasks of a kind with a command, one at a time. URL may have several servers, with spaces between them.
#   URL=http://localhost:7474 TOKEN=wlt_... sh worker.sh KIND COMMAND [ARGUMENT...]
[ $# -ge 2 ] && [ -n "$URL" ] && [ -n "$TOKEN" ] || { echo "usage: URL=... TOKEN=... sh $0 KIND COMMAND [ARGUMENT...]" >&2; exit 2; }
kind=$1 && shift
dir=$(mktemp -d) name=$(uname -n)-$$-$(od -An -N4 -tx1 /dev/urandom | tr -d ' \n') held=null pid='' ends='' wait=0
answer=$dir/answer && : >"$dir/out" >"$dir/err"
printf 'Authorization: Bearer %s' "$TOKEN" >"$dir/token" && unset TOKEN # The command does not get it.
od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$dir/secret"
clock() { cut -d. -f1 /proc/uptime; } # In seconds. It also runs while the machine sleeps.
stop() { [ -z "$pid" ] || kill -KILL "-$pid" "$pid" 2>/dev/null; pid=''; }
trap 'ends=yes' INT TERM
trap 'stop; rm -r "$dir"' EXIT

post() { # PATH BODY: sends a request, and returns whether it was carried out.
    status=$(printf %s "$2" | jq -c --rawfile secret "$dir/secret" '.secret = $secret' | curl -s --max-time 6 \
        -o "$answer" -w '%{http_code}' -H "@$dir/token" -H 'Content-Type: application/json' \
        --data-binary @- "${URL%% *}/v1/workers$1")
    case $status in
    2*) return 0 ;;
    410) stop; held=null; register ;;
    400 | 401 | 403) jq -r .detail "$answer" >&2; exit 1 ;;
    *) echo "$status from ${URL%% *}: $(jq -r .detail "$answer" 2>/dev/null)" >&2
        URL="${URL#* } ${URL%% *}" wait=0; sleep 1 ;; # The next server, if there is one.
    esac
    return 1
}
register() {
    body=$(jq -nc --arg name "$name" --arg kind "$kind" '{$name, kinds: {($kind): {slots: 1}}, sdk: "worker.sh/1"}')
    until renewed=$(clock) && post '' "$body"; do [ -z "$ends" ] || exit; done
    seq=$(jq .seq "$answer") lasts=$(jq '.ttl_ms * 0.8 / 1000 | floor' "$answer")
}
request() { # WHAT BODY: sends an exchange or a report; in the body, `.` is the run, or null.
    seq=$((seq + 1)) && eval "sent_$((seq % 1000))=$(clock)"
    post "/$name/$1" "$(printf %s "$held" | jq -c --argjson seq "$seq" --rawfile out "$dir/out" --rawfile err "$dir/err" \
        "{seq: \$seq, settled: (\$seq - 1)} + $2")"
}
start() { # Starts the run of the answer, if it has one.
    run=$(jq -c '.claims[0] // empty' "$answer") && [ -n "$run" ] && [ "$(clock)" -lt $((renewed + lasts)) ] || return 0
    stop # Of an earlier run, which this one replaces.
    held=$(printf %s "$run" | jq -c '{id, fence, run, n, took: 0}') && rm -f "$dir/code"
    printf %s "$run" | jq -c .props >"$dir/props"
    setsid sh -c 'd=$1 worker=$2; shift 2
        { "$@" <"$d/props" >"$d/out" 2>"$d/err"; echo $? >"$d/new"; mv "$d/new" "$d/code"; } &
        while kill -0 "$worker" 2>/dev/null && [ ! -f "$d/code" ]; do sleep 0.5; done
        [ -f "$d/code" ] || kill -KILL 0' sh "$dir" $$ "$@" & # The command ends when the worker is killed.
    pid=$!
}

register
while [ -z "$ends" ]; do
    end=''
    if [ "$held" != null ] && [ -z "$pid" ]; then
        end='{aborted: true}'
    elif [ "$held" != null ] && [ -f "$dir/code" ]; then
        end='{return: {message: "complete", result: ($out | try fromjson catch $out)}}' code=$(cat "$dir/code")
        [ "$code" = 0 ] || end="{return: {message: \"error\", error: (\"exit status $code: \" + \$err)}}"
    fi
    if [ -n "$end" ]; then
        request report "{items: [. + $end]}" && [ "$(jq -r '.results[0].result' "$answer")" != retry ] || continue
        held=null pid='' && start "$@"
    elif request exchange "{held: [. // empty], wait_ms: $wait}"; then
        last=$(jq .renewed_seq "$answer") && [ "$last" = 0 ] || eval "renewed=\$sent_$((last % 1000))"
        [ "$(jq '.lost | length' "$answer")" = 0 ] || { stop; held=null; }
        [ "$(jq '.stop | length' "$answer")" = 0 ] || stop
        held=$(printf %s "$held" | jq -c --slurpfile got "$answer" 'if . then .took = ([.took, $got[0].signals[]?.order] | max) else . end')
        start "$@"
        wait=3000 && { [ "$held" = null ] || wait=200; }
    fi
    [ "$held" = null ] || [ "$(clock)" -lt $((renewed + lasts)) ] || stop
done
stop
post "/$name/leave" '{}'
