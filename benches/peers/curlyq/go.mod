module github.com/windlass-rs/windlass/benches/peers/curlyq

go 1.23.0

// go.sum has no line for CurlyQ: `cargo xtask bench peers` builds with copies of both files, which Go completes.
require (
	github.com/go-redis/redis/v7 v7.2.0
	github.com/mcmathja/curlyq v1.0.0
	github.com/windlass-rs/windlass/benches/peers/gojob v0.0.0
)

replace github.com/windlass-rs/windlass/benches/peers/gojob => ../gojob
