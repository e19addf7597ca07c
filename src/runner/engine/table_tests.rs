//! Tests of the slot table.

use std::sync::Arc;

use futures::future::AbortHandle;
use jiff::Timestamp;
use tokio::time::Instant;
use windlass_statemachine::{Fence, Machine, Message, Task, TaskState};

use super::*;
use crate::{
    BoxError, TaskContext,
    handler::{AskRunner, Attempt, RunData, Signals},
    runner::{config::KindConfig, kinds::KindEntry},
    store::{Claim, Limits},
};

async fn handler(_: TaskContext) -> Result<Message, BoxError> {
    Ok(Message::complete())
}

fn slot(id: &str) -> Slot {
    let task = Task::new(id.parse().unwrap(), "k".parse().unwrap());
    let limits = Limits {
        max_bytes: 1000,
        max_outcomes: 10,
        max_operations: 10,
    };
    let config = KindConfig::default();
    let machine = config.machine(&task, limits, std::time::Duration::ZERO);
    Slot {
        claim: Claim {
            task: task.id.clone(),
            fence: Fence(1),
            lease: 1,
            token: 1,
        },
        machine: Machine::new(machine, TaskState::new(Timestamp::UNIX_EPOCH), false),
        task: Arc::new(task),
        order: 1,
        kind: Arc::new(KindEntry {
            handler: Arc::new(handler),
            config,
        }),
        metrics: crate::telemetry::NodeMetrics::new().of(&"k".parse().unwrap()),
        moved: Default::default(),
        run: None,
        active: true,
        over_limit: false,
        timers: Default::default(),
        asks: Default::default(),
        latest: None,
        first_start: None,
        failed: None,
        is_balanced: false,
        stop_orders: Vec::new(),
        claimed_at: Timestamp::UNIX_EPOCH,
        claimed: Instant::now(),
        progress_kept: None,
        log: None,
        returning: None,
    }
}

fn run(table: &mut SlotTable, id: SlotId) -> u64 {
    let number = table.next_run();
    let slot = table.get(id).unwrap();
    let (signals, delivered) = Signals::new();
    let attempt = Attempt {
        task: slot.task.clone(),
        order: slot.order,
        number: 1,
        fence: slot.claim.fence,
        data_version: 1,
        lease_until: tokio::sync::watch::channel(Instant::now()).1,
        shared: crate::handler::Shared::default(),
        store: crate::store::Store::in_memory(crate::clock::SystemClock::shared()).into(),
        span: tracing::Span::none(),
        clock: crate::clock::SystemClock::shared(),
        logged: 0,
    };
    let asks = AskRunner(Box::new(|_| false));
    let parts = RunData::new(attempt, slot.machine.state(), delivered, asks);
    let run = Run {
        number,
        abort: AbortHandle::new_pair().0,
        signals,
        data: Arc::new(parts),
        since: Timestamp::UNIX_EPOCH,
        began: Instant::now(),
        stopping: None,
    };
    table.begin_run(id, run);
    number
}

#[test]
fn a_slot_is_found_by_its_task_until_it_is_removed() {
    let mut table = SlotTable::default();
    let (a, b) = (table.insert(slot("a")), table.insert(slot("b")));
    assert_ne!(a, b);
    assert_eq!(table.of(&"b".parse().unwrap()), Some(b));
    assert!(table.remove(a).is_some() && table.remove(a).is_none());
    assert_eq!(table.of(&"a".parse().unwrap()), None);
    assert_eq!((table.len(), table.ids()), (1, vec![b]));
}

#[test]
fn the_number_of_a_slot_is_never_used_again() {
    let mut table = SlotTable::default();
    let a = table.insert(slot("a"));
    table.remove(a);
    let reserved = table.reserve();
    assert!(reserved > a && table.insert(slot("a")) > reserved);
}

#[test]
fn only_the_present_run_ends() {
    let mut table = SlotTable::default();
    let id = table.insert(slot("a"));
    let first = run(&mut table, id);
    assert_eq!(table.running(), 1);
    assert!(table.end_run(id, Some(first)).is_some());
    let second = run(&mut table, id);
    assert!(
        table.end_run(id, Some(first)).is_none(),
        "it has ended before"
    );
    assert_eq!(table.running(), 1);
    assert_eq!(table.end_run(id, None).map(|run| run.number), Some(second));
    assert_eq!(table.running(), 0);
}

#[test]
fn a_removed_slot_does_not_count_as_running() {
    let mut table = SlotTable::default();
    let id = table.insert(slot("a"));
    run(&mut table, id);
    table.remove(id);
    assert_eq!(table.running(), 0);
}
