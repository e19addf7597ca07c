//! Tests of the deferral.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::balancer::{Fair, Greedy};

/// Takes no task.
#[derive(Debug)]
struct Modest;

impl Balancer for Modest {
    fn takes(&self, _: &Cluster<'_>, _: &TaskView) -> Decision {
        Decision::NotNow
    }
}

/// Releases every task that another node could take.
#[derive(Debug)]
struct Generous;

impl Balancer for Generous {
    fn releases(&self, _: &Cluster<'_>, mine: &[TaskId], _: f64) -> Vec<TaskId> {
        mine.to_vec()
    }
}

fn peer(name: &str) -> Peer {
    Peer {
        slots: 10,
        ..Peer::new(name.parse().unwrap())
    }
}

fn deferral(balancer: impl Balancer + 'static, others: &[&str]) -> Deferral {
    let mut deferral = Deferral::new(peer("me"), Arc::new(balancer));
    let nodes = others.iter().copied().chain(["me"]);
    deferral.set_nodes(nodes.map(peer));
    deferral
}

fn view(id: &str, order: u64) -> TaskView {
    TaskView {
        id: id.parse().unwrap(),
        kind: "k".parse().unwrap(),
        labels: None,
        data_version: 1,
        priority: 0,
        order,
        due: None,
        deadline: None,
        sleeping: false,
        claimed_by: None,
        commanded: false,
        fair_key: None,
    }
}

fn load(now: Instant) -> Load {
    Load {
        active: 0,
        put_off: 0,
        claim_takes: Duration::ZERO,
        now,
        jitter: 0.5,
    }
}

/// A task for which `before` of the other nodes rank before this one.
fn ranked(deferral: &Deferral, before: usize) -> TaskView {
    let cluster = Cluster::new(&deferral.me, &deferral.others);
    let views = (0..1000).map(|n| view(&format!("t{n}"), n));
    let rank = |view: &TaskView| balancer::rank(&cluster, &view.id, view.into());
    views.into_iter().find(|view| rank(view) == before).unwrap()
}

#[test]
fn a_node_alone_defers_nothing() {
    let mut alone = deferral(Greedy, &[]);
    assert!(alone.others.is_empty(), "it does not count itself");
    let deferred = alone.deferred_until(&view("t", 1), load(Instant::now()));
    assert_eq!(deferred, None);
}

#[test]
fn a_task_is_deferred_a_step_for_each_node_that_ranks_before() {
    let now = Instant::now();
    let mut deferral = deferral(Greedy, &["a", "b", "c"]);
    for before in 0..4 {
        let task = ranked(&deferral, before);
        let expected = (before > 0).then(|| now + STEP * before as u32);
        assert_eq!(deferral.deferred_until(&task, load(now)), expected);
        let later = now + STEP * before as u32;
        assert_eq!(deferral.deferred_until(&task, load(later)), None);
    }
    assert!(deferral.deferred.entries.is_empty());
}

#[test]
fn a_slow_store_makes_the_steps_longer_up_to_a_bound() {
    let now = Instant::now();
    let mut deferral = deferral(Greedy, &["a", "b", "c"]);
    let task = ranked(&deferral, 1);
    let mut load = load(now);
    load.claim_takes = Duration::from_millis(100);
    let step = Duration::from_millis(200);
    assert_eq!(deferral.deferred_until(&task, load), Some(now + step));
    load.claim_takes = Duration::from_secs(60);
    assert_eq!(
        deferral.deferred_until(&task, load),
        Some(now + LONGEST_STEP)
    );
    load.now = now + LONGEST_STEP;
    assert_eq!(deferral.deferred_until(&task, load), None);
}

#[test]
fn a_task_that_the_balancer_does_not_take_is_looked_at_again() {
    let now = Instant::now();
    let mut modest = deferral(Modest, &["a"]);
    let deferred = modest.deferred_until(&view("t", 1), load(now));
    assert_eq!(deferred, Some(now + NOT_TAKEN));
}

/// Decides each time the same, and counts the questions.
#[derive(Debug)]
struct Decides(Decision, Arc<AtomicU32>);

impl Balancer for Decides {
    fn takes(&self, _: &Cluster<'_>, _: &TaskView) -> Decision {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0
    }
}

#[test]
fn a_pause_starts_with_the_first_question_and_comes_before_the_ranks() {
    let (now, pause) = (Instant::now(), Duration::from_secs(20));
    let mut deferral = deferral(Decides(Decision::TakeAfter(pause), Arc::default()), &["a"]);
    for before in 0..2 {
        let task = ranked(&deferral, before);
        let until = now + pause + STEP * before as u32;
        for passed in [Duration::ZERO, pause / 2] {
            let deferred = deferral.deferred_until(&task, load(now + passed));
            assert_eq!(deferred, Some(until));
        }
        assert_eq!(deferral.deferred_until(&task, load(until)), None);
    }
    let (task, far) = (view("t", 1), Decision::TakeAfter(Duration::MAX));
    let mut never = super::tests::deferral(Decides(far, Arc::default()), &[]);
    assert!(never.deferred_until(&task, load(now)).unwrap() > now + pause);
}

#[test]
fn a_balancer_is_not_asked_before_its_time() {
    let now = Instant::now();
    let until = now + Duration::from_secs(60);
    let asked = Arc::<AtomicU32>::default();
    let mut deferral = deferral(Decides(Decision::NotBefore(until), asked.clone()), &["a"]);
    let mut asks = |view: &TaskView, at: Instant| {
        let before = asked.load(Ordering::Relaxed);
        let deferred = deferral.deferred_until(view, load(at));
        (asked.load(Ordering::Relaxed) - before, deferred)
    };
    let task = view("t", 5);
    assert_eq!(asks(&task, now), (1, Some(until)));
    assert_eq!(asks(&task, now + STEP), (0, Some(until)));
    assert_eq!(asks(&view("t", 6), now), (1, Some(until)), "another task");
    let commanded = TaskView {
        commanded: true,
        ..view("t", 6)
    };
    assert_eq!(asks(&commanded, now), (1, Some(until)));
    assert_eq!(asks(&commanded, now), (0, Some(until)), "asked once");
    // At its time it is asked. A time in the past is no time.
    assert_eq!(asks(&commanded, until), (1, Some(until + NOT_TAKEN)));
}

#[test]
fn a_task_that_is_gone_is_no_longer_ignored() {
    let now = Instant::now();
    let until = now + Duration::from_secs(60);
    let mut deferral = deferral(Decides(Decision::NotBefore(until), Arc::default()), &["a"]);
    for n in 0..10 {
        deferral.deferred_until(&view(&format!("t{n}"), n), load(now));
    }
    deferral.forget_upto(&view("t3", 3).id, 2);
    assert_eq!(deferral.ignored.entries.len(), 10, "an earlier task");
    deferral.forget_upto(&view("t3", 3).id, 3);
    assert_eq!(deferral.ignored.entries.len(), 9);
    deferral.ignored.forget_at = 0;
    deferral.forget_past(until);
    assert!(deferral.ignored.entries.is_empty());
}

#[test]
fn released_tasks_count_for_others_until_one_of_them_has_them() {
    let now = Instant::now();
    let mut deferral = deferral(Fair::default(), &["a"]);
    deferral.others[0].slots = 1000;
    let tasks: Vec<Task> = (0..80)
        .map(|n| Task::new(format!("t{n}").parse().unwrap(), "k".parse().unwrap()))
        .collect();
    let state = TaskState::new(jiff::Timestamp::UNIX_EPOCH);
    let running = || {
        let numbered = (1..).zip(&tasks);
        numbered.map(|(fence, task)| Running {
            fence: Fence(fence),
            task,
            state: &state,
        })
    };
    let all = Load {
        active: 80,
        jitter: 1.0,
        ..load(now)
    };
    let released = |deferral: &mut Deferral, leaving, count| {
        let back = deferral.released_by_balancer(running().take(count), leaving, all);
        back.len()
    };
    assert_eq!(released(&mut deferral, Leaving::default(), 80), 32);
    // 32 handlers are asked to stop.
    let leaving = |tasks, active| Leaving { tasks, active };
    assert_eq!(released(&mut deferral, leaving(32, 32), 48), 0);
    // 20 of them have ended, and their tasks are free.
    let until = now + Duration::from_secs(1);
    for task in &tasks[60..] {
        deferral.release(&task.id, 1, until);
    }
    assert_eq!(released(&mut deferral, leaving(12, 32), 48), 0);
    // The other node has claimed them, and is read after that.
    for task in &tasks[60..] {
        deferral.forget_deferred(&task.id);
    }
    let too_many = "its claims were read before it claimed them";
    assert_eq!(
        released(&mut deferral, leaving(12, 32), 48),
        0,
        "{too_many}"
    );
    let claims = |claims| Peer {
        slots: 1000,
        claims,
        ..peer("a")
    };
    deferral.set_nodes([claims(20)].into_iter());
    assert_eq!(released(&mut deferral, leaving(12, 32), 48), 0);
    // A task counts only once.
    deferral.set_nodes([claims(0)].into_iter());
    assert_eq!(released(&mut deferral, leaving(0, 0), 80), 32);
}

#[test]
fn a_released_task_is_deferred_and_the_next_with_its_id_is_not() {
    let now = Instant::now();
    let until = now + Duration::from_secs(30);
    let mut deferral = deferral(Greedy, &[]);
    deferral.release(&view("t", 5).id, 5, until);
    assert_eq!(deferral.released_until(&view("t", 5), now), Some(until));
    assert_eq!(deferral.released_until(&view("t", 5), until), None);
    assert_eq!(deferral.released_until(&view("t", 6), now), None);
    deferral.forget_upto(&view("t", 5).id, 4);
    assert!(deferral.released_until(&view("t", 5), now).is_some());
    deferral.forget_upto(&view("t", 5).id, 5);
    assert_eq!(deferral.released_until(&view("t", 5), now), None);
}

#[test]
fn releases_of_the_past_are_forgotten_when_there_are_many() {
    let now = Instant::now();
    let later = now + Duration::from_secs(1);
    let mut deferral = deferral(Greedy, &[]);
    for n in 0..RELEASED_AT_LEAST as u64 {
        let until = if n == 0 { later + STEP } else { later };
        deferral.release(&view(&format!("t{n}"), n).id, n, until);
    }
    deferral.forget_past(now);
    assert_eq!(deferral.released.entries.len(), RELEASED_AT_LEAST);
    deferral.released.forget_at = RELEASED_AT_LEAST;
    deferral.forget_past(later);
    assert_eq!(deferral.released.entries.len(), 1);
}

#[test]
fn the_balancer_is_asked_about_tasks_that_another_node_could_take() {
    let mut deferral = deferral(Generous, &["a"]);
    deferral.others[0].kinds = Some(vec!["k".parse().unwrap()]);
    let task = |id: &str, kind: &str| Task::new(id.parse().unwrap(), kind.parse().unwrap());
    let tasks = [task("young", "k"), task("old", "k"), task("own", "mine")];
    let state = TaskState::new(jiff::Timestamp::UNIX_EPOCH);
    let running = [2, 1, 3].into_iter().zip(&tasks);
    let running = running.map(|(fence, task)| Running {
        fence: Fence(fence),
        task,
        state: &state,
    });
    let back = deferral.released_by_balancer(running, Leaving::default(), load(Instant::now()));
    assert_eq!(
        back,
        [tasks[1].id.clone(), tasks[0].id.clone()],
        "oldest first"
    );
}
