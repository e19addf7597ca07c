//! The bounded twins of the fuzz targets: files of the corpus with random changes, in the ordinary run of the tests.
//!
//! A failure prints its seed. `PROPTEST_RNG_SEED=SEED` repeats it; `PROPTEST_CASES=N` makes N cases of each target.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seed"
)]

#[path = "twins/bounded.rs"]
mod bounded;

use std::{
    fs,
    path::{Path, PathBuf},
};

use windlass_parsers::TARGETS;

use bounded::{corpus, twin};

fn folder(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz")
        .join(of)
}

/// The number of cases of each target, by its cost: together they take some seconds.
macro_rules! twins {
    ($($name:ident: $cases:literal)*) => {
        $(
            #[test]
            fn $name() {
                let name = stringify!($name);
                let (_, check) = TARGETS.into_iter().find(|(target, _)| *target == name).unwrap();
                twin(&folder("corpus").join(name), $cases, check);
            }
        )*

        #[test]
        fn every_target_has_a_twin() {
            assert_eq!([$(stringify!($name)),*], TARGETS.map(|(name, _)| name));
        }
    };
}

twins! {
    cursors: 2000
    exports: 500
    lines: 2000
    pointers: 1000
    protocol: 1000
    requests: 300
    schedules: 300
    stored: 1000
    times: 1000
    urls: 2000
}

/// The names of the inputs say which the parsers accept: `ok.` and `no.` begin them.
#[test]
fn the_corpus_is_accepted_and_refused_as_its_names_say() {
    let mut wrong = Vec::new();
    for (target, check) in TARGETS {
        let corpus = corpus(&folder("corpus").join(target));
        let accepted = corpus.iter().filter(|(name, _)| name.starts_with("ok."));
        assert!(accepted.count() >= 3, "{target} has few valid inputs");
        for (name, input) in corpus {
            let is_accepted = check(&input);
            let begin = if is_accepted { "ok." } else { "no." };
            if !name.starts_with(begin) {
                wrong.push(format!("{target}/{name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "other names fit better: {wrong:?}");
}

#[test]
fn every_target_is_a_program_of_the_fuzzer() {
    let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
    let programs = fs::read_dir(folder("fuzz_targets")).unwrap();
    // `metafora` has its twin in the library (`src/store/etcd/schema/fuzzing.rs`), whose private forms it reads.
    assert_eq!(programs.count(), TARGETS.len() + 1);
    for (target, _) in TARGETS {
        let path = format!("fuzz_targets/{target}.rs");
        let program = fs::read_to_string(folder(&path)).unwrap();
        assert!(program.contains(&format!("windlass_parsers::{target}::check(input)")));
        assert!(
            manifest.contains(&format!("path = \"{path}\"")),
            "{path} in fuzz/Cargo.toml"
        );
    }
}
