//! Tasks that wait for many: the rows by which their waits are found.

use std::collections::BTreeSet;

use windlass::{
    Message, StateKind, Task,
    statemachine::waits::Waits,
    store::{IfExists, Lease, Registry, Submit, sqlite::SqliteStore},
};

use super::support::*;

fn after(text: &str, ids: &[String]) -> Task {
    let mut task = task(text);
    let ids = ids.iter().map(String::as_str);
    task.waits = Some(Box::new(Waits::new("after", ids).unwrap()));
    task
}

async fn end(store: &SqliteStore, lease: &Lease, text: &str) {
    let claimed = claim(store, lease, text).await;
    commit(store, &claimed, Message::complete()).await.unwrap();
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("t{n}")).collect()
}

fn count(file: &File, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    file.raw().query_row(&sql, (), |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_long_wait_has_one_row_and_a_short_one_has_all() {
    let file = file();
    let store = file.open().await;
    let lease = join(&store, "node").await;
    let all = names(100);
    for name in &all {
        submit(&store, name).await;
    }
    try_submit(&store, after("long", &all)).await.unwrap();
    try_submit(&store, after("short", &all[..4])).await.unwrap();
    let rows = || {
        (
            count(&file, "windlass_watches"),
            count(&file, "windlass_waits"),
        )
    };
    assert_eq!(rows(), (1, 4));
    for name in &all {
        assert_eq!(rows().0, 1);
        end(&store, &lease, name).await;
    }
    claim(&store, &lease, "long").await;
    claim(&store, &lease, "short").await;
    assert_eq!(rows(), (0, 0));
}

/// What watches rely on, of each waiting task: while a task of its list is live, a row names a live one. When none
/// is live, each task that may be live again without a retry or a delete has a row, and so has the empty id or
/// each task of the list.
fn assert_found(file: &File, step: &str) {
    let broken = "
        SELECT t.id FROM windlass_states s JOIN windlass_tasks t ON t.n = s.n
        WHERE s.waits AND CASE EXISTS (
            SELECT 1 FROM json_each(s.state, '$.waits.tasks') l JOIN windlass_tasks lt ON lt.id = l.value
                JOIN windlass_states ls ON ls.n = lt.n WHERE ls.ended_at IS NULL)
        WHEN 1 THEN NOT EXISTS (
            SELECT 1 FROM (SELECT * FROM windlass_watches UNION ALL SELECT * FROM windlass_waits) w
                JOIN windlass_tasks wt ON wt.id = w.waited JOIN windlass_states ws ON ws.n = wt.n
                WHERE w.n = s.n AND ws.ended_at IS NULL)
        ELSE EXISTS (
            SELECT 1 FROM json_each(s.state, '$.waits.tasks') l
                WHERE NOT EXISTS (SELECT 1 FROM windlass_waits w WHERE w.n = s.n AND w.waited = l.value)
                AND NOT EXISTS (SELECT 1 FROM windlass_watches w WHERE w.n = s.n AND w.waited = l.value)
                AND NOT (EXISTS (SELECT 1 FROM windlass_watches w WHERE w.n = s.n AND w.waited = '')
                    AND EXISTS (SELECT 1 FROM windlass_tasks lt WHERE lt.id = l.value)))
        END";
    let raw = file.raw();
    let mut broken = raw.prepare(broken).unwrap();
    let broken = broken.query_map((), |row| row.get::<_, String>(0)).unwrap();
    let broken: Vec<String> = broken.map(Result::unwrap).collect();
    assert_eq!(broken, [""; 0], "after {step}");
}

#[tokio::test]
async fn a_waiting_task_is_found_by_whatever_can_change_its_wait() {
    let mut random = fastrand::Rng::with_seed(11);
    let file = file();
    let store = file.open().await;
    let lease = join(&store, "node").await;
    let pool = names(10);
    let (mut live, mut ended) = (BTreeSet::new(), BTreeSet::new());
    let mut waiters = Vec::new();
    for step in 0..600 {
        let name = pool[random.usize(..pool.len())].clone();
        let what = match random.u32(..10) {
            0 | 1 if waiters.len() < 12 => {
                let mut list = pool.clone();
                random.shuffle(&mut list);
                list.truncate(random.usize(3..9));
                let waiter = format!("w{step}");
                try_submit(&store, after(&waiter, &list)).await.unwrap();
                waiters.push(waiter);
                "a submit of a waiting task"
            }
            0 | 1 => {
                let waiter = waiters.swap_remove(random.usize(..waiters.len()));
                match try_claim(&store, &lease, &waiter).await.unwrap() {
                    Some(claimed) => commit(&store, &claimed, Message::complete()).await.unwrap(),
                    None => waiters.push(waiter),
                }
                "a claim of a waiting task"
            }
            2 if ended.remove(&name) => {
                store.retry(vec![id(&name)]).await.remove(0).unwrap();
                live.insert(name);
                "a retry"
            }
            3 if live.remove(&name) || ended.remove(&name) => {
                store.delete(vec![id(&name)]).await.remove(0).unwrap();
                "a delete"
            }
            4 if ended.remove(&name) => {
                let submit = Submit {
                    task: task(&name),
                    if_exists: IfExists::ReplaceFinished,
                };
                store.submit(vec![submit]).await.remove(0).unwrap();
                live.insert(name);
                "a replacement"
            }
            5..=7 if live.remove(&name) => {
                end(&store, &lease, &name).await;
                ended.insert(name);
                "an end"
            }
            _ if !live.contains(&name) && !ended.contains(&name) => {
                submit(&store, &name).await;
                live.insert(name);
                "a submit"
            }
            _ => continue,
        };
        assert_found(&file, &format!("step {step}: {what}"));
    }
    for name in &live {
        end(&store, &lease, name).await;
        assert_found(&file, "the last ends");
    }
    for waiter in &waiters {
        let claimed = claim(&store, &lease, waiter).await;
        assert_eq!(claimed.state.code(), StateKind::Runnable);
    }
}
