#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    windlass_parsers::times::check(input);
});
