#!/usr/bin/env bash
# A cluster on one machine: three members of etcd and three windlass workers, on loopback, in a
# temporary folder. It submits work, kills one worker and one member in the middle of it, shows that
# everything completes, and stops everything.
#
#   examples/cluster/run.sh            60 tasks; TASKS=500 examples/cluster/run.sh for more
#
# It needs etcd (ETCD_BIN, or in the PATH) and windlass with the feature `etcd` (WINDLASS, or it is
# built here, which needs protoc).
set -euo pipefail

tasks=${TASKS:-60}
deadline=${DEADLINE:-180}   # seconds for the work to complete
etcd=${ETCD_BIN:-etcd}
root=$(cd "$(dirname "$0")/../.." && pwd)

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

command -v "$etcd" >/dev/null ||
  fail "etcd is not there: install it (Debian: apt install etcd-server), or name it by ETCD_BIN"
if [ -z "${WINDLASS:-}" ]; then
  say "building windlass"
  command -v "${PROTOC:-protoc}" >/dev/null ||
    fail "protoc is not there: install it (Debian: apt install protobuf-compiler), or set PROTOC"
  cargo build --quiet --manifest-path "$root/Cargo.toml" -p windlass-cli --features etcd
  WINDLASS=${CARGO_TARGET_DIR:-$root/target}/debug/windlass
fi

folder=$(mktemp -d)
declare -A pid=()
stop_all() {
  for name in "${!pid[@]}"; do kill -TERM "${pid[$name]}" 2>/dev/null || true; done
  for name in "${!pid[@]}"; do wait "${pid[$name]}" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap stop_all EXIT
trap 'exit 130' INT TERM

# A port without a listener, which was not returned before.
declare -A taken=()
free_port() {
  while :; do
    port=$((20000 + RANDOM % 12000))
    [ -n "${taken[$port]:-}" ] && continue
    taken[$port]=1
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 0
  done
}

say "three members of etcd"
members=(m1 m2 m3) cluster='' endpoints=''
declare -A client=() peer=()
for m in "${members[@]}"; do
  free_port; client[$m]=127.0.0.1:$port
  free_port; peer[$m]=127.0.0.1:$port
  cluster+=${cluster:+,}$m=http://${peer[$m]}
  endpoints+=${endpoints:+,}${client[$m]}
done
for m in "${members[@]}"; do
  "$etcd" --name "$m" --data-dir "$folder/$m" \
    --listen-client-urls "http://${client[$m]}" --advertise-client-urls "http://${client[$m]}" \
    --listen-peer-urls "http://${peer[$m]}" --initial-advertise-peer-urls "http://${peer[$m]}" \
    --initial-cluster "$cluster" --initial-cluster-state new --initial-cluster-token "$folder" \
    --auto-compaction-mode periodic --auto-compaction-retention 1h --snapshot-count 5000 \
    >"$folder/$m.log" 2>&1 &
  pid[$m]=$!
done
export WINDLASS_STORE=etcd://$endpoints/example XDG_DATA_HOME=$folder
echo "WINDLASS_STORE=$WINDLASS_STORE"

# Runs a command until it succeeds, for so many seconds.
within() {
  local seconds=$1 end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>"$folder/why"; do
    [ $SECONDS -lt $end ] || { tail -n 5 "$folder/why" "$folder"/*.log >&2; fail "not within $seconds s: $*"; }
    sleep 0.2
  done
}
completed() { "$WINDLASS" list --state completed --limit 100000 --output json | wc -l; }
at_least() { [ "$(completed)" -ge "$1" ]; }
within 60 "$WINDLASS" stats

say "three workers"
for n in n1 n2 n3; do
  "$WINDLASS" worker --name "$n" --slots 4 --lease-ttl 5s >"$folder/$n.log" 2>&1 &
  pid[$n]=$!
done
nodes() { "$WINDLASS" nodes --output json | grep -o '"name":' | wc -l; }
three() { [ "$(nodes)" -eq 3 ]; }
within 60 three
"$WINDLASS" nodes

say "$tasks tasks"
for ((n = 1; n <= tasks; n++)); do
  printf '{"id":"task-%03d","kind":"exec","props":{"command":"sleep","args":["1"]}}\n' "$n"
done | "$WINDLASS" submit --lines - >/dev/null
within "$deadline" at_least $((tasks / 4))

say "killing worker n1 and member m1 (kill -9), with $(completed) of $tasks completed"
for name in n1 m1; do
  # A worker is two processes; a supervisor that lived on would end the commands.
  mapfile -t below < <(pgrep -P "${pid[$name]}")
  kill -9 "${pid[$name]}" "${below[@]}"
  wait "${pid[$name]}" 2>/dev/null || true
  unset "pid[$name]"
done

within "$deadline" at_least "$tasks"
say "$(completed) of $tasks completed"
"$WINDLASS" stats
"$WINDLASS" nodes

say "stopping"
