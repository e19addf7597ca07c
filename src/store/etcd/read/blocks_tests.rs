//! Blocks of made-up namespaces.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use super::*;

struct Namespace {
    ids: BTreeSet<Vec<u8>>,
    /// How many keys were counted, and how many requests there were.
    counted: AtomicUsize,
    requests: AtomicUsize,
}

impl Namespace {
    fn new(ids: impl IntoIterator<Item = String>) -> Self {
        Self {
            ids: ids.into_iter().map(String::into_bytes).collect(),
            counted: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
        }
    }

    fn of(&self, ids: &Ids) -> Vec<Vec<u8>> {
        assert!(ids.from < ids.end, "{ids:?}");
        self.ids
            .range(ids.from.clone()..ids.end.clone())
            .cloned()
            .collect()
    }

    /// Returns all ids by blocks, with the size of the largest one.
    async fn all(&self, ascending: bool, now: &str, most: usize) -> (Vec<Vec<u8>>, usize) {
        let mut ids = Ids {
            from: Vec::new(),
            end: vec![0xff],
        };
        let mut now = Some(now.as_bytes());
        let (mut all, mut largest) = (Vec::new(), 0);
        while ids.from < ids.end {
            let block = match ascending {
                true => first(self, &ids, most).await,
                false => last(self, &ids, now.take(), most).await,
            };
            let Some(block) = block.expect("a count") else {
                break;
            };
            let mut of = self.of(&block);
            assert!(!of.is_empty(), "{block:?}");
            largest = largest.max(of.len());
            if ascending {
                ids.from = block.end;
            } else {
                of.reverse();
                ids.end = block.from;
            }
            all.extend(of);
        }
        (all, largest)
    }
}

impl Count for Namespace {
    async fn count(&self, ranges: &[Ids]) -> Result<Vec<Found>, Fault> {
        self.requests.fetch_add(1, Relaxed);
        assert!(ranges.len() <= 96, "{} ranges", ranges.len());
        let found = ranges.iter().map(|range| {
            let of = self.of(range);
            self.counted.fetch_add(of.len(), Relaxed);
            let first = of.first().cloned().unwrap_or_default();
            let keys = of.len();
            Found { keys, first }
        });
        Ok(found.collect())
    }
}

/// A default id of this millisecond.
fn default_id(millis: u64, n: u64) -> String {
    let time = format!("{millis:012x}");
    let (a, b) = time.split_at(8);
    let tail = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{a}-{b}-7{:03x}-8{:03x}-{n:012x}", tail >> 52, tail & 0xfff)
}

const NOW: u64 = 1_764_150_000_000;

fn now() -> String {
    default_id(NOW, 0)[..15].to_owned()
}

fn namespaces() -> Vec<(&'static str, Vec<String>)> {
    let default = |n: u64| default_id(NOW - 3_600_000 + n * 7, n);
    let mut mixed: Vec<String> = (0..500).map(default).collect();
    mixed.extend((0..700).map(|n| format!("job-{n}")));
    mixed.extend((0..5).map(|n| format!("é{n}")));
    mixed.extend(["a", "job-5/owner", "job-5/commands", "~"].map(str::to_owned));
    mixed.extend((0..300).map(|n| format!("a/commands/{n:05}")));
    vec![
        ("none", Vec::new()),
        ("one", vec!["x".to_owned()]),
        ("default", (0..3000).map(default).collect()),
        ("own", (0..3000).map(|n| format!("job-{n:06}")).collect()),
        ("plain numbers", (0..3000).map(|n| n.to_string()).collect()),
        (
            "runs of schedules",
            (0..3000)
                .map(|n| format!("daily report@2026-{n:08}"))
                .collect(),
        ),
        ("mixed", mixed),
    ]
}

#[tokio::test]
async fn blocks_have_every_id_once_in_both_directions() {
    for (name, ids) in namespaces() {
        let namespace = Namespace::new(ids);
        let mut expected: Vec<Vec<u8>> = namespace.ids.iter().cloned().collect();
        for most in [1, 7, 64, 5000] {
            let (all, largest) = namespace.all(true, &now(), most).await;
            assert!(all == expected, "{name}, {most}: {} ids", all.len());
            assert!(largest <= most, "{name}, {most}: {largest}");
        }
        expected.reverse();
        for most in [1, 7, 64, 5000] {
            let (all, largest) = namespace.all(false, &now(), most).await;
            assert!(all == expected, "{name}, {most}: {} ids", all.len());
            assert!(largest <= most, "{name}, {most}: {largest}");
        }
    }
}

#[tokio::test]
async fn the_newest_default_ids_are_found_without_counting_the_others() {
    for tasks in [1000, 50_000] {
        let ids = (0..tasks).map(|n| default_id(NOW - 40 * n, n));
        let namespace = Namespace::new(ids);
        let all = Ids {
            from: Vec::new(),
            end: vec![0xff],
        };
        let now = now();
        let block = last(&namespace, &all, Some(now.as_bytes()), 64).await;
        let block = block.expect("a count").expect("a block");
        assert!(namespace.of(&block).len() > 10);
        let counted = namespace.counted.load(Relaxed);
        assert!(counted < 2000, "{counted} of {tasks} keys were counted");
        let requests = namespace.requests.load(Relaxed);
        assert!(requests <= 6, "{requests} requests");
    }
}
