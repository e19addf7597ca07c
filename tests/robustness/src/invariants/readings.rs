//! A reader of the feed that begins after a change of the past reads every change since then, once and in order.

use windlass::store::Change;

use super::Found;
use crate::{readers::Reading, world::World};

pub(super) fn check(world: &World) -> Found {
    let readings = world.promised.readings.iter();
    readings.filter_map(|reading| of(world, reading)).collect()
}

fn of(world: &World, reading: &Reading) -> Option<(windlass::TaskId, String)> {
    let from = world.feed.partition_point(|told| told.seq <= reading.after);
    let told = world.feed[from..].iter().map(Some);
    let told = told.chain(std::iter::repeat(None));
    let mut pairs = reading.changes.iter().zip(told);
    let (read, told) = pairs.find(|(read, told)| told.is_none_or(|told| !is_same(read, told)))?;
    let (seq, after) = (read.seq, reading.after);
    let next = told.map_or("nothing".to_owned(), |told| format!("change {}", told.seq));
    let how = format!("a reader after {after} read change {seq}; the feed told {next}");
    Some((read.task.clone(), how))
}

/// Whether two readers were told the same. A delete has the time at which its reader was told of it.
fn is_same(one: &Change, other: &Change) -> bool {
    (one.seq, &one.task, &one.what) == (other.seq, &other.task, &other.what)
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;

    #[test]
    fn a_reader_that_begins_elsewhere_is_caught() {
        let history = subject(vec![submitted(), claimed("a", 2), completed(2)]).history;
        let mut world = World {
            feed: history.clone(),
            ..World::default()
        };
        let mut read = |after, changes: &[_]| {
            let changes = changes.to_vec();
            world.promised.readings = vec![Reading { after, changes }];
            check(&world)
        };
        holds(read(0, &history));
        holds(read(0, &[]));
        holds(read(1, &history[1..2]));
        caught(
            read(0, &history[1..]),
            "after 0 read change 2; the feed told change 1",
        );
        caught(
            read(1, &[history[1].clone(), history[1].clone()]),
            "read change 2",
        );
        caught(read(3, &history[2..]), "the feed told nothing");
    }
}
