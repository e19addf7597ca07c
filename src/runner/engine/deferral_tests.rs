//! Tests of the deferral.

use super::*;
use crate::balancer::Greedy;

/// Takes no task.
#[derive(Debug)]
struct Modest;

impl Balancer for Modest {
    fn takes(&self, _: &Cluster<'_>, _: &TaskView) -> bool {
        false
    }
}

/// Releases every task that another node could take.
#[derive(Debug)]
struct Generous;

impl Balancer for Generous {
    fn gives_back(&self, _: &Cluster<'_>, mine: &[TaskId], _: f64) -> Vec<TaskId> {
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
        claim_takes: Duration::ZERO,
        now,
        jitter: 0.5,
    }
}

/// A task for which `before` of the other nodes rank before this one.
fn ranked(deferral: &Deferral, before: usize) -> TaskView {
    let cluster = Cluster {
        me: &deferral.me,
        others: &deferral.others,
    };
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

#[test]
fn a_released_task_is_deferred_and_the_next_with_its_id_is_not() {
    let now = Instant::now();
    let until = now + Duration::from_secs(30);
    let mut deferral = deferral(Greedy, &[]);
    deferral.release(&view("t", 5).id, 5, until);
    assert_eq!(deferral.released_until(&view("t", 5), now), Some(until));
    assert_eq!(deferral.released_until(&view("t", 5), until), None);
    assert_eq!(deferral.released_until(&view("t", 6), now), None);
    deferral.forget_release_upto(&view("t", 5).id, 4);
    assert!(deferral.released_until(&view("t", 5), now).is_some());
    deferral.forget_release_upto(&view("t", 5).id, 5);
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
    let back = deferral.released_by_balancer(running, load(Instant::now()));
    assert_eq!(
        back,
        [tasks[1].id.clone(), tasks[0].id.clone()],
        "oldest first"
    );
}
