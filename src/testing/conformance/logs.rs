//! Log lines: kept with their attempt, bounded, and only of the live claim.

use jiff::Timestamp;
use windlass_statemachine::Message;

use super::{
    Capability, Harness,
    capability::need,
    kit::{Kit, assert_matches, id, is_fenced, one},
    strangers::{export, import},
};
use crate::store::{
    Claimed, Commit, Error, LogLine, LogPage, LogQuery, LogWrite, Logged,
    examine::{Examination, Verdict},
    rules::log_lines::{ATTEMPT_PARTS, PART_LINES, page},
};

/// Returns a line in whole milliseconds, as handlers log it.
fn line(n: u64, text: &str) -> Logged {
    let at = Timestamp::from_millisecond(1_900_000_000_000 + n as i64).expect("a time");
    Logged::new(n, at, text)
}

async fn try_log(kit: &Kit, claimed: &Claimed, lines: Vec<Logged>) -> Result<(), Error> {
    let write = LogWrite::new(claimed.claim.clone(), lines);
    one(kit.coordinator().log(vec![write]).await)
}

async fn log(kit: &Kit, claimed: &Claimed, lines: Vec<Logged>) {
    let answer = try_log(kit, claimed, lines).await;
    answer.unwrap_or_else(|e| panic!("the lines are refused: {e}"));
}

/// Commits a message with lines.
async fn commit(kit: &Kit, claimed: &Claimed, message: &Message, lines: Vec<Logged>) {
    let write = kit.write(claimed, message);
    let mut commit = Commit::new(claimed.claim.clone(), write);
    commit.log = Some(lines.into());
    // The second one repeats the first, as after a lost answer.
    for _ in 0..2 {
        let answer = one(kit.coordinator().commit(vec![commit.clone()]).await);
        answer.unwrap_or_else(|e| panic!("{message:?} is refused: {e}"));
    }
}

async fn read(kit: &Kit, text: &str, query: &LogQuery) -> LogPage {
    let parts = kit.registry().log_parts(&id(text), query.after.part).await;
    page(parts.expect("a log"), query)
}

async fn texts(kit: &Kit, text: &str) -> Vec<String> {
    let page = read(kit, text, &LogQuery::default()).await;
    assert_eq!(page.gone, 0, "nothing was deleted");
    page.lines.into_iter().map(|line| line.text).collect()
}

/// Lines are kept in order, with the attempt and the time, and a reader goes on after the last one that it has read.
pub async fn lines_are_kept_with_their_attempt(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    assert_eq!(texts(&kit, "a").await, [""; 0]);
    log(&kit, &claimed, vec![line(1, "one"), line(2, "tw\u{1b}\"ö")]).await;
    let first = read(&kit, "a", &LogQuery::default()).await;
    let of_two = LogLine {
        number: 2,
        incarnation: 0,
        attempt: 1,
        at: line(2, "").at,
        text: "tw\u{1b}\"ö".to_owned(),
    };
    assert_eq!(first.lines[1], of_two);
    let mut second = line(3, "three");
    second.attempt = 2;
    log(&kit, &claimed, vec![second]).await;
    let more = read(&kit, "a", &LogQuery::default().after(first.next)).await;
    assert_eq!((more.lines.len(), more.gone), (1, 0));
    assert_eq!((more.lines[0].number, more.lines[0].attempt), (3, 2));
    let only = read(&kit, "a", &LogQuery::default().attempt(2)).await;
    assert_eq!((only.lines, only.gone), (more.lines, 0));
    kit.commit(&mut claimed, &Message::release()).await;
    let again = kit.claim(&node, "a").await;
    log(&kit, &again, vec![line(1, "four")]).await;
    assert_eq!(
        texts(&kit, "a").await,
        ["one", "tw\u{1b}\"ö", "three", "four"]
    );
    let missing = kit.registry().log_parts(&id("b"), 0).await;
    assert_matches!(missing, Err(Error::NotFound { .. }));
}

/// The lines of a commit are stored with its transition, also when it ends the task.
pub async fn a_commit_writes_its_lines(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    kit.checkpoint(&mut claimed, 1).await;
    log(&kit, &claimed, vec![line(1, "one")]).await;
    commit(
        &kit,
        &claimed,
        &Message::sleep_for(std::time::Duration::ZERO),
        vec![line(2, "two")],
    )
    .await;
    assert_eq!(texts(&kit, "a").await, ["one", "two"]);
    let claimed = kit.claimed(&node, "b").await;
    let many = (1..=600).map(|n| line(n, "line")).collect();
    commit(&kit, &claimed, &Message::complete(), many).await;
    assert_eq!(texts(&kit, "b").await.len(), 600);
    assert!(kit.state("b").await.code().is_terminal());
}

/// A line that is written again, because its answer was lost or because a commit has it too, is there once.
pub async fn lines_are_taken_once(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    let two = vec![line(1, "one"), line(2, "two")];
    log(&kit, &claimed, two.clone()).await;
    log(&kit, &claimed, two).await;
    let three = vec![line(2, "two"), line(3, "three")];
    commit(&kit, &claimed, &Message::complete(), three).await;
    assert_eq!(texts(&kit, "a").await, ["one", "two", "three"]);
}

/// A node that lost a task adds no lines to it.
pub async fn a_stale_owner_logs_nothing(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (first, second) = (kit.node("n1").await, kit.node("n2").await);
    let stale = kit.claimed(&first, "a").await;
    log(&kit, &stale, vec![line(1, "one")]).await;
    kit.coordinator().leave(&first).await.unwrap();
    let refused = try_log(&kit, &stale, vec![line(2, "stale")]).await;
    assert!(is_fenced(&refused), "{refused:?}");
    let owner = kit.claim(&second, "a").await;
    log(&kit, &owner, vec![line(1, "two")]).await;
    let refused = try_log(&kit, &stale, vec![line(2, "stale")]).await;
    assert!(is_fenced(&refused), "{refused:?}");
    let write = kit.write(&stale, &Message::complete());
    let mut late = Commit::new(stale.claim.clone(), write);
    late.log = Some(vec![line(2, "stale")].into());
    let refused = one(kit.coordinator().commit(vec![late]).await);
    assert!(is_fenced(&refused), "{refused:?}");
    assert_eq!(texts(&kit, "a").await, ["one", "two"]);
}

/// The log of an attempt is bounded: its oldest lines are deleted first, and a reader learns how many.
pub async fn the_oldest_lines_go_first(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    let total = ((ATTEMPT_PARTS + 2) * PART_LINES) as u64;
    let all: Vec<Logged> = (1..=total).map(|n| line(n, "x")).collect();
    for lines in all.chunks(1000) {
        log(&kit, &claimed, lines.to_vec()).await;
    }
    let page = read(&kit, "a", &LogQuery::default()).await;
    assert_eq!(page.gone, 2 * PART_LINES as u64);
    assert_eq!(page.lines.len(), ATTEMPT_PARTS * PART_LINES);
    assert_eq!(page.lines[0].number, page.gone + 1);
    // Numbers that a handler leaves out are lines that were dropped.
    log(&kit, &claimed, vec![line(total + 8, "last")]).await;
    let more = read(&kit, "a", &LogQuery::default().after(page.next)).await;
    assert_eq!((more.lines.len(), more.gone), (1, 7));
}

/// The log is deleted with its task, and a task that replaces it begins without lines.
pub async fn a_deleted_task_has_no_lines(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    commit(&kit, &claimed, &Message::complete(), vec![line(1, "one")]).await;
    kit.retry("a").await;
    assert_eq!(texts(&kit, "a").await, ["one"], "a retry keeps the lines");
    kit.delete("a").await;
    kit.submit("a").await;
    assert_eq!(texts(&kit, "a").await, [""; 0]);
    let mut claimed = kit.claim(&node, "a").await;
    log(&kit, &claimed, vec![line(1, "two")]).await;
    kit.commit(&mut claimed, &Message::complete()).await;
    kit.replace("a").await;
    assert_eq!(texts(&kit, "a").await, [""; 0]);
}

/// Acknowledged lines are durable.
pub async fn lines_are_durable(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    log(&kit, &claimed, vec![line(1, "one")]).await;
    commit(&kit, &claimed, &Message::complete(), vec![line(2, "two")]).await;
    let kit = kit.reopened(harness).await;
    assert_eq!(texts(&kit, "a").await, ["one", "two"]);
}

/// Logs a line of a new task.
pub(super) async fn one_line(kit: &Kit, name: &str) {
    let node = kit.node("logs").await;
    let claimed = kit.claimed(&node, name).await;
    log(kit, &claimed, vec![line(1, "one")]).await;
}

/// A part of a log that cannot be read is reported with its attempt: to readers, who get the other lines, and by an
/// export, which refuses the task.
pub async fn a_damaged_part_is_reported(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    let mut second = line(2, "two");
    second.attempt = 2;
    log(&kit, &claimed, vec![line(1, "one"), second]).await;
    commit(&kit, &claimed, &Message::complete(), Vec::new()).await;
    let damaged = harness.corrupt_log(&kit.store, &id("a")).await;
    need(Capability::CorruptLog, damaged.then_some(()));
    let page = read(&kit, "a", &LogQuery::default()).await;
    assert_eq!(page.lines.len(), 1);
    assert_eq!(page.lines[0].text, "two");
    let named: Vec<_> = page
        .damaged
        .iter()
        .map(|part| (part.part, part.attempt))
        .collect();
    assert_eq!(named, [(0, 1)], "the damaged part is named");
    if let Some(transfer) = kit.registry().transfer() {
        let refused = one(transfer.export(&[id("a")]).await);
        assert_matches!(refused, Err(Error::Corrupt { .. }));
    }
}

/// An examination names the task of a damaged part of a log. A repair deletes that part and keeps the others.
pub async fn a_damaged_part_is_found_and_repaired(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    let mut second = line(2, "two");
    second.attempt = 2;
    log(&kit, &claimed, vec![line(1, "one"), second]).await;
    let damaged = harness.corrupt_log(&kit.store, &id("a")).await;
    need(Capability::CorruptLog, damaged.then_some(()));
    let found = async |repair| {
        let how = Examination {
            repair,
            ..Examination::default()
        };
        let doctor = need(Capability::Examine, kit.store.doctor().ok());
        let findings = doctor.examine(&how).await.expect("findings");
        let mut findings = findings.into_iter();
        need(
            Capability::Examine,
            findings.find(|finding| finding.check == "log-parts"),
        )
    };
    let reported = found(false).await;
    assert_eq!(reported.verdict, Verdict::Error);
    assert!(reported.found.contains("'a'"), "{reported:?}");
    assert_eq!(found(true).await.repaired, 1);
    assert_eq!(found(false).await.verdict, Verdict::Ok);
    let page = read(&kit, "a", &LogQuery::default()).await;
    assert_eq!((page.lines.len(), page.damaged.len()), (1, 0));
    // The live claim goes on.
    let mut third = line(3, "three");
    third.attempt = 2;
    log(&kit, &claimed, vec![third]).await;
    let page = read(&kit, "a", &LogQuery::default()).await;
    assert_eq!(page.lines.len(), 2);
}

/// A task has its lines in another store, also when it replaces a task there.
pub async fn a_moved_task_has_its_lines(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    commit(&kit, &claimed, &Message::complete(), vec![line(1, "one")]).await;
    need(Capability::Transfer, kit.registry().transfer());
    let sent = export(&kit, &[id("a")]).await;
    let other = Kit::new(harness).await;
    import(&other, sent.clone()).await;
    assert_eq!(texts(&other, "a").await, ["one"]);
    let mut newer = sent;
    newer[0].log[0].lines[0].text = "new".to_owned();
    newer[0].replaces = Some(other.get("a").await.order);
    import(&other, newer).await;
    assert_eq!(texts(&other, "a").await, ["new"]);
}
