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

    fn page(&self, query: &LogQuery) -> (Vec<u64>, u64) {
        let page = page(self.parts.clone(), query);
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
    let half = "x".repeat(PART_BYTES / 2 + 1);
    let long: Vec<_> = (1..=3).map(|n| line(n, 1, &half)).collect();
    assert_eq!(
        log.add(8, &long).put.len(),
        3,
        "the last part has room for one"
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
    let first = page(log.parts.clone(), &LogQuery::default());
    let next = || LogQuery::default().after(first.next);
    assert_eq!(log.page(&next()), (vec![], 0));
    assert_eq!(page(log.parts.clone(), &next()).next, first.next);
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
