module github.com/windlass-rs/windlass/benches/peers/curlyq

go 1.23.0

// go.sum has no line for CurlyQ: `cargo xtask bench peers` builds with copies of both files, which Go completes.
require (
	github.com/go-redis/redis/v7 v7.2.0
	github.com/mcmathja/curlyq v1.0.0
	github.com/windlass-rs/windlass/benches/peers/gojob v0.0.0
)

require (
	github.com/gofrs/uuid v3.2.0+incompatible // indirect
	github.com/markbates/pkger v0.12.8 // indirect
	github.com/vmihailenco/msgpack/v4 v4.3.7 // indirect
	github.com/vmihailenco/tagparser v0.1.1 // indirect
)

replace github.com/windlass-rs/windlass/benches/peers/gojob => ../gojob

