module github.com/windlass-rs/windlass/benches/peers/gojob

go 1.23.0
