//! Random changes of the inputs of a corpus, checked in a bounded number.
//!
//! The unit tests of the library include this file too.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seed"
)]

use std::{
    env, fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use proptest::{
    collection::vec,
    prelude::*,
    sample::Index,
    test_runner::{Config, RngSeed, TestError, TestRunner},
};

/// Returns the inputs of a folder with speaking names. The fuzzer names its own by their hashes.
pub(crate) fn corpus(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let files = files.map(|file| file.unwrap().path());
    let named = files.map(|file| {
        (
            file.file_name().unwrap().to_string_lossy().into_owned(),
            file,
        )
    });
    let named = named.filter(|(name, _)| name.contains('.'));
    let mut inputs: Vec<_> = named
        .map(|(name, file)| (name, fs::read(file).unwrap()))
        .collect();
    inputs.sort();
    inputs
}

/// Returns a number that differs in each run.
fn fresh() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap()
}

/// Checks this many changed inputs of a corpus.
pub(crate) fn twin(folder: &Path, cases: u32, check: impl Fn(&[u8]) -> bool) {
    let target = folder.file_name().unwrap().to_string_lossy();
    let corpus = Corpus::new(corpus(folder).into_iter().map(|(_, input)| input));
    let seed = env::var("PROPTEST_RNG_SEED").map_or_else(|_| fresh(), |seed| seed.parse().unwrap());
    let cases = env::var("PROPTEST_CASES").map_or(cases, |cases| cases.parse().unwrap());
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    };
    println!("{target}: PROPTEST_RNG_SEED={seed}");
    let run = TestRunner::new(config).run(&changed(), |changes| {
        check(&changes.of(&corpus));
        Ok(())
    });
    match run {
        Ok(()) => {}
        Err(TestError::Fail(reason, changes)) => {
            let input = changes.of(&corpus);
            let text = String::from_utf8_lossy(&input);
            panic!("{target}: {reason}\ninput: {text:?}\nrepeat it with PROPTEST_RNG_SEED={seed}");
        }
        Err(error) => panic!("{target}: {error}; PROPTEST_RNG_SEED={seed}"),
    }
}

/// Words that parsers take for special, or fail at.
const WORDS: [&str; 48] = [
    "null",
    "true",
    "-1",
    "0",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "1e999",
    "1.50",
    "-0",
    "\"\"",
    "{}",
    "[]",
    "\\u0000",
    "\"\\ud800\"",
    "\u{0}",
    "\u{feff}",
    "\u{e9}",
    "\u{202e}",
    "\u{1f600}",
    "9999-12-30T22:00:00Z",
    "-009999-01-02T00:00:00Z",
    "2030-02-30",
    "99999999y",
    "P1Y2M",
    "1ns",
    "in ",
    " ago",
    "now",
    "~1",
    "~0",
    "/",
    "//",
    "*",
    "*/0",
    "L-31",
    "31W",
    "#5",
    "+",
    "%00",
    "%",
    "&",
    "?",
    "=",
    ":",
    ",",
    "@",
    "\n",
];

/// The inputs that are changed, and the words of all of them.
#[derive(Debug)]
struct Corpus {
    inputs: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
}

impl Corpus {
    fn new(inputs: impl Iterator<Item = Vec<u8>>) -> Self {
        let inputs: Vec<_> = inputs.collect();
        assert!(!inputs.is_empty(), "a corpus has inputs");
        let is_end = |byte: &u8| b" \n,:{}[]&?=/\"".contains(byte);
        let own = inputs.iter().flat_map(|input| input.split(is_end));
        let own = own.filter(|word| !word.is_empty()).map(<[u8]>::to_vec);
        let mut words: Vec<Vec<u8>> = own.collect();
        words.sort();
        words.dedup();
        words.extend(WORDS.map(|word| word.as_bytes().to_vec()));
        Self { inputs, words }
    }
}

/// One change.
#[derive(Debug, Clone)]
enum Change {
    /// Ends the input here.
    Cut(Index),
    /// Writes another byte.
    Byte(Index, u8),
    /// Inserts a word.
    Word(Index, Index),
    /// Writes a word in place of one.
    Instead(Index, Index),
    /// Removes bytes.
    Remove(Index, usize),
    /// Repeats a piece.
    Twice(Index, usize, u8),
    /// Inserts a piece of another input.
    Piece(Index, Index, Index, usize),
}

/// An input of the corpus, and what is changed in it.
#[derive(Debug, Clone)]
struct Changes {
    input: Index,
    changes: Vec<Change>,
}

/// Returns changed inputs.
fn changed() -> impl Strategy<Value = Changes> {
    let place = any::<Index>;
    let change = prop_oneof![
        1 => place().prop_map(Change::Cut),
        3 => (place(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        4 => (place(), place()).prop_map(|(at, word)| Change::Word(at, word)),
        8 => (place(), place()).prop_map(|(at, word)| Change::Instead(at, word)),
        2 => (place(), 1..12usize).prop_map(|(at, len)| Change::Remove(at, len)),
        1 => (place(), 1..12usize, 1..40u8).prop_map(|(at, len, times)| Change::Twice(at, len, times)),
        2 => (place(), place(), place(), 1..40usize)
            .prop_map(|(at, of, from, len)| Change::Piece(at, of, from, len)),
    ];
    (place(), vec(change, 1..5)).prop_map(|(input, changes)| Changes { input, changes })
}

impl Changes {
    /// Returns the changed input.
    fn of(&self, corpus: &Corpus) -> Vec<u8> {
        let mut input = self.input.get(&corpus.inputs).clone();
        for change in &self.changes {
            change.apply(&mut input, corpus);
        }
        input
    }
}

impl Change {
    fn apply(&self, input: &mut Vec<u8>, corpus: &Corpus) {
        let place = |at: &Index, input: &[u8]| at.index(input.len() + 1);
        match self {
            Self::Cut(at) => input.truncate(place(at, input)),
            Self::Byte(at, byte) => {
                if !input.is_empty() {
                    let at = at.index(input.len());
                    input[at] = *byte;
                }
            }
            Self::Word(at, word) => {
                let (at, word) = (place(at, input), word.get(&corpus.words).clone());
                input.splice(at..at, word);
            }
            Self::Instead(at, word) => {
                let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@+".contains(&byte);
                let at = place(at, input);
                let before = input[..at]
                    .iter()
                    .rev()
                    .take_while(|byte| is_part(**byte))
                    .count();
                let after = input[at..]
                    .iter()
                    .take_while(|byte| is_part(**byte))
                    .count();
                input.splice(at - before..at + after, word.get(&corpus.words).clone());
            }
            Self::Remove(at, len) => {
                let at = place(at, input);
                let end = (at + len).min(input.len());
                input.drain(at..end);
            }
            Self::Twice(at, len, times) => {
                let at = place(at, input);
                let end = (at + len).min(input.len());
                let piece = input[at..end].repeat(usize::from(*times));
                input.splice(at..at, piece);
            }
            Self::Piece(at, of, from, len) => {
                let (at, other) = (place(at, input), of.get(&corpus.inputs));
                let from = place(from, other);
                let end = (from + len).min(other.len());
                input.splice(at..at, other[from..end].to_vec());
            }
        }
    }
}
