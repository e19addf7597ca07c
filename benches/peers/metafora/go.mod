module github.com/windlass-rs/windlass/benches/peers/metafora

go 1.23.0

// go.sum has no line for Metafora: `cargo xtask bench peers` builds with copies of both files, which Go completes.
require (
	github.com/lytics/metafora v0.0.0-20260130173418-78a2f872fa20
	go.etcd.io/etcd/client/v3 v3.5.7
)

require (
	github.com/araddon/gou v0.0.0-20190110011759-c797efecbb61 // indirect
	github.com/coreos/go-semver v0.3.0 // indirect
	github.com/coreos/go-systemd/v22 v22.3.2 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	go.etcd.io/etcd/api/v3 v3.5.7 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.5.7 // indirect
	go.uber.org/atomic v1.7.0 // indirect
	go.uber.org/multierr v1.6.0 // indirect
	go.uber.org/zap v1.17.0 // indirect
	golang.org/x/net v0.38.0 // indirect
	golang.org/x/sys v0.31.0 // indirect
	golang.org/x/text v0.23.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20250324211829-b45e905df463 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250324211829-b45e905df463 // indirect
	google.golang.org/grpc v1.73.0 // indirect
	google.golang.org/protobuf v1.36.6 // indirect
)

require github.com/windlass-rs/windlass/benches/peers/gojob v0.0.0

replace github.com/windlass-rs/windlass/benches/peers/gojob => ../gojob
