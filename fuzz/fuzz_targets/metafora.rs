#![no_main]

// The library has this function only in a build with `--cfg fuzzing`, which `cargo fuzz` sets.
libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    windlass::store::etcd::check_values(input);
});
