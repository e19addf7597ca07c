module github.com/windlass-rs/windlass/benches/peers/entroq

go 1.25.0

// go.sum has no line for EntroQ: `cargo xtask bench peers` builds with copies of both files, which Go completes.
require (
	github.com/shiblon/entroq v1.1.0
	github.com/windlass-rs/windlass/benches/peers/gojob v0.0.0
	google.golang.org/grpc v1.80.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/lib/pq v1.12.1 // indirect
	github.com/shiblon/stuffedio v0.8.1 // indirect
	go.opentelemetry.io/otel v1.43.0 // indirect
	go.opentelemetry.io/otel/metric v1.43.0 // indirect
	golang.org/x/net v0.53.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
	golang.org/x/sys v0.43.0 // indirect
	golang.org/x/text v0.36.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260223185530-2f722ef697dc // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260223185530-2f722ef697dc // indirect
	google.golang.org/protobuf v1.36.11 // indirect
	gopkg.in/yaml.v2 v2.4.0 // indirect
)

replace github.com/windlass-rs/windlass/benches/peers/gojob => ../gojob

