//! A handler that runs again and again without any effect.

use std::time::Duration;

use windlass_statemachine::{Command, Message, Retry, TaskState};

use crate::common::{Rig, t0};

/// One run: it returns this, which is stored, and the answer is what follows.
fn run(rig: &mut Rig, message: Message) -> Vec<String> {
    rig.returned(message);
    let out = rig.stored();
    match out.as_slice() {
        // A sleep that is over already.
        [write] if write.starts_with("write runnable: run") => rig.stored(),
        _ => out,
    }
}

fn idle_runs(rig: &mut Rig, runs: u32) {
    for n in 0..runs {
        assert_eq!(run(rig, Message::run()), ["start 1"], "{n}");
    }
}

#[test]
fn the_hundredth_run_without_effect_waits_and_each_further_one_twice_as_long() {
    let mut rig = Rig::running();
    idle_runs(&mut rig, 99);
    for (runs, wait) in (100..110).zip([10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000]) {
        let before = rig.elapsed();
        let at = before + Duration::from_millis(wait);
        let waits = format!("resume +{}s after {runs} runs", at.as_secs_f64());
        assert_eq!(run(&mut rig, Message::run()), [waits.as_str()]);
        rig.pass(wait - 1);
        assert_eq!(rig.wake(), [waits.as_str()], "too early");
        rig.pass(1);
        assert_eq!(rig.wake(), ["start 1"]);
    }
}

#[test]
fn any_effect_starts_the_count_again() {
    let child = || {
        let [id, kind] = ["c", "k"];
        windlass_statemachine::Task::new(id.parse().unwrap(), kind.parse().unwrap())
    };
    for effect in [
        Message::run().with_data(&1),
        Message::run().and_submit(child()),
    ] {
        let mut rig = Rig::running();
        idle_runs(&mut rig, 99);
        assert_eq!(run(&mut rig, effect), ["start 1"]);
        idle_runs(&mut rig, 99);
        assert_eq!(run(&mut rig, Message::run()).len(), 1);
        assert!(rig.machine.is_idle());
    }
}

#[test]
fn a_stepper_that_changes_its_data_never_waits() {
    let mut rig = Rig::running();
    for n in 0..1000 {
        let message = Message::checkpoint().with_data(&n);
        assert_eq!(run(&mut rig, message), ["start 1"]);
    }
    // Nor does one that stores its data while it runs, and one whose runs take their time.
    for n in 0..1000 {
        rig.checkpoint(n, &n.to_string());
        rig.stored();
        assert_eq!(run(&mut rig, Message::run()), ["start 1"]);
    }
    for _ in 0..1000 {
        rig.pass(100);
        assert_eq!(run(&mut rig, Message::run()), ["start 1"]);
    }
}

#[test]
fn a_sleep_that_is_over_and_the_same_data_again_are_runs_without_effect() {
    let again = Message::run().with_data(&1);
    for message in [
        Message::sleep_until(t0()),
        Message::checkpoint(),
        again.clone(),
    ] {
        let mut rig = Rig::running();
        run(&mut rig, again.clone());
        for _ in 0..99 {
            assert_eq!(run(&mut rig, message.clone()), ["start 1"]);
        }
        let out = run(&mut rig, message);
        assert_eq!(out, ["resume +0.01s after 100 runs"]);
    }
}

#[test]
fn a_command_and_a_stop_do_not_wait_for_the_next_run() {
    let waiting = || {
        let mut rig = Rig::of(TaskState::new(t0()), Retry::Never);
        rig.begin();
        idle_runs(&mut rig, 99);
        run(&mut rig, Message::run());
        assert!(rig.machine.is_idle());
        rig
    };
    let mut rig = waiting();
    assert_eq!(
        rig.command(Command::Run),
        [
            "disarm wake",
            "write runnable: run#1; 1 applied runnable runnable"
        ]
    );
    assert_eq!(rig.stored(), ["start 1"]);
    let mut rig = waiting();
    let out = rig.stop();
    assert_eq!(out, ["disarm wake", "write runnable: release; drop"]);
    let mut rig = waiting();
    assert_eq!(rig.fenced(), ["disarm wake", "lost"]);
}
