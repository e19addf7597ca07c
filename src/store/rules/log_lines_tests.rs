use jiff::Timestamp;

use super::*;

fn line(n: u64, attempt: u32, text: &str) -> Logged {
    Logged {
        attempt,
        ..Logged::new(n, Timestamp::UNIX_EPOCH, text)
    }
}

/// A log in memory, as a store keeps it.
#[derive(Default)]
struct Log {
    head: LogHead,
    parts: Vec<LogPart>,
}

impl Log {
    fn add(&mut self, fence: u64, lines: &[Logged]) -> Added {
        let added = add(&self.head, Fence(fence), lines);
        for part in &added.put {
            self.parts.retain(|stored| stored.part != part.part);
            self.parts.push(part.clone());
        }
        self.parts
            .retain(|stored| !added.removed.contains(&PartPlace::of(stored)));
        let places: Vec<_> = self.parts.iter().map(PartPlace::of).collect();
        assert_eq!(places, added.head.parts);
        assert_eq!(self.parts.last(), added.head.last.as_ref());
        self.head = added.head.clone();
        added
    }

    fn stored(&self) -> StoredLog {
        StoredLog {
            parts: self.parts.clone(),
            ..StoredLog::default()
        }
    }

    fn page(&self, query: &LogQuery) -> (Vec<u64>, u64) {
        let page = page(self.stored(), query);
        let numbers = page.lines.iter().map(|line| line.number);
        (numbers.collect(), page.gone)
    }

    fn all(&self) -> (Vec<u64>, u64) {
        self.page(&LogQuery::default())
    }
}

#[test]
fn lines_of_a_claim_are_added_once() {
    let mut log = Log::default();
    assert_eq!(log.add(7, &[]), Added::default());
    log.add(7, &[line(1, 1, "a"), line(2, 1, "b")]);
    let again = log.add(7, &[line(2, 1, "b")]);
    assert!(again.put.is_empty() && again.removed.is_empty());
    log.add(7, &[line(1, 1, "a"), line(2, 1, "b"), line(3, 1, "c")]);
    // The next claim counts from 1 again.
    log.add(9, &[line(1, 1, "d")]);
    assert_eq!(log.all(), (vec![1, 2, 3, 4], 0));
    assert_eq!(log.parts.len(), 1);
}

#[test]
fn each_attempt_has_parts_of_its_own_and_gone_lines_belong_to_one() {
    let mut log = Log::default();
    // Line 1 was dropped before the first write, and line 4 of the second attempt.
    log.add(7, &[line(2, 1, "a"), line(3, 2, "b"), line(5, 2, "c")]);
    log.add(8, &[line(1, 1, "d")]);
    assert_eq!(log.all(), (vec![2, 3, 5, 6], 2));
    assert_eq!(log.page(&LogQuery::default().attempt(1)), (vec![2, 6], 1));
    assert_eq!(log.page(&LogQuery::default().attempt(2)), (vec![3, 5], 1));
    assert_eq!(log.page(&LogQuery::default().incarnation(1)), (vec![], 0));
    let runs: Vec<u32> = log.parts.iter().map(|part| part.attempt).collect();
    assert_eq!(runs, [1, 2, 1]);
}

#[test]
fn a_part_is_full_by_its_lines_and_by_its_bytes() {
    let mut log = Log::default();
    let lines: Vec<_> = (1..=PART_LINES as u64 + 1)
        .map(|n| line(n, 1, ""))
        .collect();
    assert_eq!(log.add(7, &lines).put.len(), 2);
    let half = "x".repeat(PART_BYTES / 2);
    let long: Vec<_> = (1..=5).map(|n| line(n, 1, &half)).collect();
    assert_eq!(
        log.add(8, &long).put.len(),
        3,
        "the last part has room for two"
    );
    assert_eq!(log.parts.len(), 4);
}

#[test]
fn the_oldest_parts_of_an_attempt_and_of_a_task_are_deleted() {
    let mut log = Log::default();
    let full = |from: u64, parts: usize, attempt: u32| -> Vec<Logged> {
        let count = (parts * PART_LINES) as u64;
        (from..from + count).map(|n| line(n, attempt, "")).collect()
    };
    log.add(7, &[line(1, 1, "")]);
    let added = log.add(8, &full(1, ATTEMPT_PARTS + 1, 2));
    assert_eq!(
        added.put.len(),
        ATTEMPT_PARTS,
        "a part that is deleted at once is not written"
    );
    assert_eq!(
        log.parts.len(),
        1 + ATTEMPT_PARTS,
        "the first attempt keeps its line"
    );
    assert_eq!(
        log.page(&LogQuery::default().attempt(2)).1,
        PART_LINES as u64
    );
    assert_eq!(log.all().1, PART_LINES as u64);
    for attempt in 3..=5 {
        log.add(u64::from(attempt) + 6, &full(1, ATTEMPT_PARTS, attempt));
    }
    assert_eq!(log.parts.len(), TASK_PARTS);
    assert_eq!(log.page(&LogQuery::default().attempt(1)), (vec![], 0));
    assert_eq!(log.all().1, 1 + PART_LINES as u64);
}

#[test]
fn a_reader_goes_on_after_the_last_line() {
    let mut log = Log::default();
    log.add(7, &[line(1, 1, ""), line(2, 1, "")]);
    let first = page(log.stored(), &LogQuery::default());
    let next = || LogQuery::default().after(first.next);
    assert_eq!(log.page(&next()), (vec![], 0));
    assert_eq!(page(log.stored(), &next()).next, first.next);
    log.add(7, &[line(3, 1, ""), line(5, 2, "")]);
    assert_eq!(log.page(&next()), (vec![3, 5], 1));
    assert_eq!(log.page(&next().attempt(2)), (vec![5], 1));
}

#[test]
fn lines_after_a_part_that_cannot_be_read_have_a_part_of_their_own() {
    let mut log = Log::default();
    log.add(7, &[line(1, 1, "")]);
    let head = LogHead {
        last: None,
        ..log.head
    };
    let added = add(&head, Fence(7), &[line(2, 1, "")]);
    assert_eq!(added.put[0].part, 1);
}

/// A reader lost the lines after a damaged part, because their numbers start again.
#[test]
fn a_reader_has_the_lines_after_a_damaged_part() {
    let mut log = Log::default();
    log.add(7, &[line(1, 1, ""), line(2, 1, "")]);
    let first = page(log.stored(), &LogQuery::default());
    let head = LogHead {
        last: None,
        ..log.head
    };
    let parts = add(&head, Fence(9), &[line(1, 2, "")]).put;
    let place = PartPlace {
        part: 0,
        incarnation: 0,
        attempt: 1,
    };
    let damaged = vec![place.damaged("it is no JSON")];
    let stored = StoredLog { parts, damaged };
    let next = page(stored.clone(), &LogQuery::default().after(first.next));
    assert_eq!((next.lines.len(), next.lines[0].number), (1, 1));
    assert_eq!(next.damaged, stored.damaged);
    let second = page(stored.clone(), &LogQuery::default().attempt(2));
    assert_eq!((second.lines.len(), second.damaged.len()), (1, 0));
    let refused = whole(&"a".parse().unwrap(), stored)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("part 0 of its log lines, of attempt 1: it is no JSON"),
        "{refused}"
    );
}

#[test]
fn a_long_line_is_cut_between_two_characters() {
    assert_eq!(&*cut("a"), "a");
    let long = "ö".repeat(LINE_BYTES);
    let mut log = Log::default();
    log.add(7, &[line(1, 1, &long)]);
    let text = &log.parts[0].lines[0].text;
    assert_eq!(text.len(), LINE_BYTES - 1);
    assert!(text.ends_with("ö…"), "{text}");
}

/// An import accepted logs of any size.
#[test]
fn a_log_beyond_its_bounds_is_not_imported() {
    let mut log = Log::default();
    let lines: Vec<_> = (1..=600).map(|n| line(n, 1, "x")).collect();
    log.add(7, &lines);
    check(&log.parts).unwrap();
    let refused = |change: &dyn Fn(&mut Vec<LogPart>)| {
        let mut parts = log.parts.clone();
        change(&mut parts);
        check(&parts).unwrap_err().to_string()
    };
    let of_many = |parts: &mut Vec<LogPart>, attempts: u32| {
        let part = parts[0].clone();
        let numbered = (0..=TASK_PARTS as u64).zip((1..=attempts).cycle());
        *parts = numbered
            .map(|(n, attempt)| LogPart {
                part: n,
                attempt,
                ..part.clone()
            })
            .collect();
    };
    let text = |length: usize| "x".repeat(length);
    for (found, expected) in [
        (
            refused(&|parts| of_many(parts, 9)),
            "log: has 129 parts; a task has at most 128",
        ),
        (
            refused(&|parts| {
                of_many(parts, 1);
                parts.truncate(40);
            }),
            "log: has part 32 of attempt 1",
        ),
        (
            refused(&|parts| parts[1].attempt = 0),
            "log: has part 1 of attempt 0",
        ),
        (
            refused(&|parts| parts.swap(0, 1)),
            "log: has part 0 in the wrong place",
        ),
        (
            refused(&|parts| parts[2].part = 1 << 60),
            "log: has part 1152921504606846976",
        ),
        (
            refused(&|parts| parts[0].lines.clear()),
            "log: has 0 lines and 0 bytes in part 0",
        ),
        (
            refused(&|parts| {
                let more = parts[1].lines.clone();
                parts[0].lines.extend(more);
            }),
            "log: has 512 lines",
        ),
        (
            refused(&|parts| {
                parts[0]
                    .lines
                    .iter_mut()
                    .for_each(|line| line.text = text(100));
            }),
            "log: has 256 lines and 25600 bytes in part 0",
        ),
        (
            refused(&|parts| parts[0].lines[3].text = text(LINE_BYTES + 1)),
            "log: has a line 4 of 4097 bytes",
        ),
        (
            refused(&|parts| parts[0].lines[3].text = "a\nb".into()),
            "without a line break",
        ),
        (
            refused(&|parts| parts[0].lines[3].n = 3),
            "log: has line 3 after line 3",
        ),
        (
            refused(&|parts| parts[0].lines[0].n = 0),
            "log: has line 0 after line 0",
        ),
    ] {
        assert!(found.contains(expected), "{found} for {expected}");
    }
}
