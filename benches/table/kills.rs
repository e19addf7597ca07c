//! How many tasks run twice because their node was killed: those that have run, and whose ends were not
//! written.

use std::{collections::HashSet, path::Path, time::Instant};

use windlass::{Message, NewTask, Runner, TaskContext};

use crate::{
    report::Report,
    support::{self, Other, Setting},
};

/// How many no-ops run at once.
const SLOTS: u32 = 64;
/// How many tasks run before each kill.
const BEFORE: usize = 4000;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let folder = setting.folder();
    let file = folder.path().join("kills.db");
    let kills = setting.pick(20, 5);
    let tasks = BEFORE * 2 * (kills + 1);
    support::runtime().block_on(async {
        let task = |n| NewTask::new("work").id(support::id(n));
        support::fill(&support::open(&file).await, tasks, task).await;
    });
    let (mut seen, mut twice, mut rates) = (HashSet::new(), Vec::new(), Vec::new());
    // The last one runs what the last kill has left.
    for _ in 0..=kills {
        let (mut ran, mut repeated, mut begun) = (0, 0, None);
        let mut node = Other::start("noops", &file);
        loop {
            let id = node.line();
            if id.is_empty() {
                break;
            }
            let begun = *begun.get_or_insert_with(Instant::now);
            ran += 1;
            repeated += usize::from(!seen.insert(id));
            if ran == BEFORE {
                rates.push(ran as f64 / begun.elapsed().as_secs_f64());
                node.kill();
            }
        }
        twice.push(repeated as f64);
    }
    twice.remove(0);
    report.median("no-ops a second, until the kill", &rates, "/s", None);
    report.median("tasks that run twice after it", &twice, "", None);
}

/// The part of the node.
pub(crate) async fn noops(file: &Path) {
    let store = support::open(file).await;
    let handler = |task: TaskContext| {
        support::say(task.id());
        async { Message::complete() }
    };
    let node = Runner::builder(&store)
        .slots(SLOTS)
        .handler("work", handler)
        .start()
        .await
        .unwrap();
    while support::asked().await {}
    node.drain().await;
}
