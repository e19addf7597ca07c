//! Schedules on a node: the clock is set back, a pause ends, an ended one starts again.

use std::sync::Arc;

use jiff::SignedDuration;
use tokio::time::sleep;
use windlass::{
    Client, Command, Message, NewTask, Outcome, Runner, StateKind, TaskContext, TaskId,
    schedule::{LiveRuns, Missed, Overlap, Schedule, ScheduleRecord},
    store::{Error, Store},
    testing::{Fault, Operation},
};

use super::support::{SettableClock, World, secs};

const HOURS: SignedDuration = SignedDuration::from_hours(3);

async fn done(_: TaskContext) -> Message {
    Message::complete()
}

fn every(seconds: u64) -> Schedule {
    Schedule::new(NewTask::new("k")).every(secs(seconds), None)
}

/// A store whose clock, like that of its nodes, is three hours ahead.
async fn ahead() -> (World, Arc<SettableClock>) {
    let mut world = World::new().await;
    let clock = SettableClock::at(world.now());
    clock.set_by(HOURS);
    let store = Store::open_with_clock("memory:", clock.clone())
        .await
        .unwrap();
    world.client = Client::new(&store);
    world.store = store;
    (world, clock)
}

async fn node(world: &World) -> Runner {
    let node = world.node("n").handler("k", done);
    node.start().await.unwrap()
}

async fn fired(world: &World) -> u64 {
    let record = world.client.schedules().get("s").await.unwrap();
    record.counts.fired
}

#[tokio::test(start_paused = true)]
async fn a_schedule_goes_on_when_a_clock_that_was_ahead_is_set_right() {
    let (world, clock) = ahead().await;
    let schedules = world.client.schedules();
    schedules.create("s", every(2)).await.unwrap();
    // It has decided no time by the wrong clock.
    let daily = Schedule::new(NewTask::new("k")).every(secs(3600), world.now());
    schedules.create("new", daily).await.unwrap();
    let _node = node(&world).await;
    world
        .until("a run", || async { fired(&world).await > 1 })
        .await;
    clock.set_by(-HOURS);
    let before = fired(&world).await;
    sleep(secs(10)).await;
    let record = schedules.get("s").await.unwrap();
    assert!(record.counts.fired >= before + 3, "{:?}", record.counts);
    assert_eq!(record.ahead, None);
    sleep(secs(3600)).await;
    let record = schedules.get("new").await.unwrap();
    assert!(record.counts.fired >= 1, "{:?}", record.counts);
}

#[tokio::test(start_paused = true)]
async fn a_resume_lets_a_schedule_go_on_that_waits_for_the_time_of_a_wrong_clock() {
    let (world, clock) = ahead().await;
    let schedules = world.client.schedules();
    schedules.create("s", every(2)).await.unwrap();
    let first = node(&world).await;
    world
        .until("a run", || async { fired(&world).await > 1 })
        .await;
    first.shutdown().await;
    clock.set_by(-HOURS);
    // No node has seen that its clock was set.
    let _second = node(&world).await;
    sleep(secs(60)).await;
    let before = schedules.get("s").await.unwrap();
    assert!(before.ahead.is_some_and(|ahead| ahead > world.now()));
    schedules.resume("s", false).await.unwrap();
    sleep(secs(10)).await;
    let after = schedules.get("s").await.unwrap();
    assert!(
        after.counts.fired > before.counts.fired,
        "{:?}",
        after.counts
    );
    assert_eq!(after.ahead, None);
}

#[tokio::test(start_paused = true)]
async fn an_update_of_an_ended_schedule_is_one_write() {
    let world = World::new().await;
    let schedules = world.client.schedules();
    let counted = every(2).count(3).overlap(Overlap::Allow(9));
    schedules.create("s", counted.clone()).await.unwrap();
    let id: TaskId = "s".parse().unwrap();
    let node = node(&world).await;
    world.rest(&id, StateKind::Completed).await;
    node.shutdown().await;
    let before = schedules.get("s").await.unwrap();
    assert_eq!(before.counts.fired, 3);
    // The client is lost after the first write.
    world.faults.fail(Operation::Send, Fault::Before, 1000);
    let updated = schedules.update("s", counted.clone().count(4)).await;
    updated.unwrap();
    let after = schedules.get("s").await.unwrap();
    assert_eq!(after.state, Some(StateKind::Sleeping));
    assert_eq!(after.counts, before.counts);
    assert_eq!(
        (after.last_run, &after.runs),
        (before.last_run, &before.runs)
    );
    assert_eq!(after.last, None, "it begins now");
    assert!(
        !after.stored.as_str().contains("earlier"),
        "{}",
        after.stored.as_str()
    );
    world.faults.heal();
    // Another change keeps them too, and so does the node.
    schedules
        .skip("s", after.next.unwrap().nominal)
        .await
        .unwrap();
    let _node = self::node(&world).await;
    world.rest(&id, StateKind::Completed).await;
    let counts = schedules.get("s").await.unwrap().counts;
    assert_eq!((counts.fired, counts.skipped), (4, 1));
}

/// Regression: another program's update between the read of a spec and the write of the new one was
/// lost.
#[tokio::test(start_paused = true)]
async fn an_update_keeps_what_another_has_changed_since_it_read_the_spec() {
    let world = World::new().await;
    let schedules = world.client.schedules();
    for id in ["live", "ended"] {
        schedules.create(id, every(3600)).await.unwrap();
    }
    let node = node(&world).await;
    let ended: TaskId = "ended".parse().unwrap();
    world.client.command(&ended, Command::Kill).await.unwrap();
    world.rest(&ended, StateKind::Killed).await;
    node.shutdown().await;
    for id in ["live", "ended"] {
        let mut calls = 0;
        let change = |record: &ScheduleRecord| {
            calls += 1;
            if calls == 1 {
                another(&world.client, id);
            }
            Ok::<_, Error>(record.spec.clone()?.zone("Europe/Berlin"))
        };
        schedules.update_with(id, change).await.unwrap();
        assert_eq!(calls, 2, "{id}");
        let stored = schedules.get(id).await.unwrap().stored;
        let stored: serde_json::Value = stored.get("schedule").unwrap();
        assert_eq!(stored["zone"], "Europe/Berlin", "{id}");
        assert_eq!(stored["count"], 7, "{id}");
    }
}

/// Another program changes the count, to its end.
fn another(client: &Client, id: &'static str) {
    let schedules = client.schedules();
    let update = async move {
        let change = |record: &ScheduleRecord| Ok::<_, Error>(record.spec.clone()?.count(7));
        schedules.update_with(id, change).await.unwrap();
    };
    let program = std::thread::spawn(|| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(update);
    });
    program.join().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_signal_does_not_end_the_pause_of_a_schedule() {
    let world = World::new().await;
    let schedules = world.client.schedules();
    schedules.create("s", every(60)).await.unwrap();
    let _node = node(&world).await;
    schedules.pause("s", None).await.unwrap();
    let id: TaskId = "s".parse().unwrap();
    world.rest(&id, StateKind::Paused).await;
    let before = fired(&world).await;
    let signal = Command::signal("go", &1).unwrap();
    let outcome = world.command(&id, signal).await;
    assert!(matches!(outcome, Outcome::Rejected { .. }), "{outcome:?}");
    sleep(secs(300)).await;
    world.rest(&id, StateKind::Paused).await;
    assert_eq!(fired(&world).await, before);
}

#[tokio::test(start_paused = true)]
async fn each_way_to_resume_a_schedule_skips_the_times_of_its_pause() {
    for command in [true, false] {
        let world = World::new().await;
        let schedules = world.client.schedules();
        let all = every(60).missed(Missed::All, secs(24 * 3600));
        schedules
            .create("s", all.overlap(Overlap::Allow(99)))
            .await
            .unwrap();
        let _node = node(&world).await;
        let id: TaskId = "s".parse().unwrap();
        sleep(secs(30)).await;
        for pause in 1..=2 {
            schedules.pause("s", None).await.unwrap();
            world.rest(&id, StateKind::Paused).await;
            let before = schedules.get("s").await.unwrap().counts;
            sleep(secs(600)).await;
            match command {
                true => drop(world.client.command(&id, Command::Run).await.unwrap()),
                false => schedules.resume("s", false).await.unwrap(),
            }
            world.rest(&id, StateKind::Sleeping).await;
            let after = schedules.get("s").await.unwrap().counts;
            assert_eq!(after.skipped, before.skipped + 10, "pause {pause}");
            assert_eq!(after.fired, before.fired, "pause {pause}");
            // A command of a schedule that is not paused skips nothing.
            sleep(secs(90)).await;
            world.client.command(&id, Command::Run).await.unwrap();
            sleep(secs(90)).await;
            let later = schedules.get("s").await.unwrap().counts;
            assert_eq!(
                (later.fired, later.skipped),
                (after.fired + 3, after.skipped)
            );
        }
        // With `catch_up`, each runs.
        schedules.pause("s", None).await.unwrap();
        world.rest(&id, StateKind::Paused).await;
        let before = schedules.get("s").await.unwrap().counts;
        sleep(secs(600)).await;
        schedules.resume("s", true).await.unwrap();
        world.rest(&id, StateKind::Sleeping).await;
        let after = schedules.get("s").await.unwrap().counts;
        assert_eq!(
            (after.fired, after.skipped),
            (before.fired + 10, before.skipped)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_was_cut_off_kills_the_runs_that_it_has_left() {
    let world = World::new().await;
    let schedules = world.client.schedules();
    schedules.create("s", every(60)).await.unwrap();
    let run = schedules.trigger("s").await.unwrap();
    world.faults.fail(Operation::Send, Fault::Before, 1);
    schedules.delete("s", LiveRuns::Kill).await.unwrap_err();
    assert_eq!(world.code(&run).await, StateKind::Runnable);
    let killed = schedules.delete("s", LiveRuns::Kill).await.unwrap();
    assert_eq!(killed, std::slice::from_ref(&run));
    let _node = node(&world).await;
    world.rest(&run, StateKind::Killed).await;
    let gone = schedules.delete("s", LiveRuns::Kill).await.unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone}");
}
