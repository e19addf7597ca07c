//! The counts are those of the tasks that are there.

use std::collections::BTreeMap;

use windlass::{Kind, StateKind, TaskId, store::TaskCount};

use super::Found;
use crate::world::World;

type Counts = BTreeMap<(Kind, Option<StateKind>), (u64, u64)>;

pub(super) fn check(world: &World) -> Found {
    let Some(counts) = &world.counts else {
        return Found::new();
    };
    let mut there = Counts::new();
    let mut named = BTreeMap::<(Kind, Option<StateKind>), &TaskId>::new();
    for (id, subject) in &world.subjects {
        let group = (subject.record.task.kind.clone(), subject.code());
        let (tasks, claimed) = there.entry(group.clone()).or_default();
        *tasks += 1;
        *claimed += u64::from(subject.record.node.is_some());
        named.entry(group).or_insert(id);
    }
    let of = |c: &TaskCount| ((c.kind.clone(), c.state), (c.tasks, c.claimed));
    let counted: Counts = counts.iter().map(of).collect();
    let first = world.subjects.keys().next();
    let groups = there.keys().chain(counted.keys());
    let wrong = groups.filter(|group| there.get(group) != counted.get(group));
    let wrong: std::collections::BTreeSet<_> = wrong.collect();
    let found = wrong.into_iter().filter_map(|group| {
        let (kind, state) = group;
        let state = state.map_or("quarantined", StateKind::as_str);
        let (there, counted) = (there.get(group), counted.get(group));
        let how = format!(
            "{kind} {state}: {counted:?} are counted (tasks, claimed), {there:?} are there"
        );
        let task = named.get(group).copied().or(first)?;
        Some((task.clone(), how))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use windlass::store::Filter;
    use windlass::{Client, NewTask, store::Store};

    use super::super::sample::*;
    use super::*;

    #[tokio::test]
    async fn a_count_that_differs_is_caught() {
        let client = Client::new(&Store::open("memory:").await.unwrap());
        client.submit(NewTask::new("k").id("t")).await.unwrap();
        let tasks = client.list(&Filter::default(), Default::default()).await;
        let mut subject = subject(vec![submitted()]);
        subject.record = tasks.unwrap().remove(0);
        let mut world = world(subject);
        holds(check(&world));
        let mut counts = client.counts().await.unwrap();
        world.counts = Some(counts.clone());
        holds(check(&world));
        counts[0].claimed = 1;
        world.counts = Some(counts.clone());
        caught(check(&world), "Some((1, 1)) are counted");
        counts[0].claimed = 0;
        let mut other = counts[0].clone();
        other.kind = "gone".parse().unwrap();
        counts.push(other);
        world.counts = Some(counts);
        caught(check(&world), "gone runnable: Some((1, 0)) are counted");
        world.counts = Some(Vec::new());
        caught(check(&world), "None are counted");
    }
}
