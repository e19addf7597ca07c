//! A reader of the feed that begins after a change of the past reads every change since then, once and in order.

use windlass::store::Change;

use super::Found;
use crate::{readers::Reading, world::World};

pub(super) fn check(world: &World) -> Found {
    let readings = world.promised.readings.iter();
    readings.filter_map(|reading| of(world, reading)).collect()
}

fn of(world: &World, reading: &Reading) -> Option<(windlass::TaskId, String)> {
    let from = world
        .feed
        .partition_point(|reported| reported.seq <= reading.after);
    let reported = world.feed[from..].iter().map(Some);
    let reported = reported.chain(std::iter::repeat(None));
    let mut pairs = reading.changes.iter().zip(reported);
    let (read, reported) =
        pairs.find(|(read, reported)| reported.is_none_or(|reported| !is_same(read, reported)))?;
    let (seq, after) = (read.seq, reading.after);
    let next = reported.map_or("nothing".to_owned(), |reported| {
        format!("change {}", reported.seq)
    });
    let how = format!("a reader after {after} read change {seq}; the feed reported {next}");
    Some((read.task.clone(), how))
}

/// Whether two readers read the same. A delete has the time at which its reader read it.
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
            "after 0 read change 2; the feed reported change 1",
        );
        caught(
            read(1, &[history[1].clone(), history[1].clone()]),
            "read change 2",
        );
        caught(read(3, &history[2..]), "the feed reported nothing");
    }
}
