//! Long waits: a waiting task watches one live task of its list, and another one when that has ended.
//!
//! At the commit of a transaction, the rows of `windlass_watches` of a waiting task `n` are
//!
//! - a live task of its list, if there is one: when it ends, the list is examined again;
//! - otherwise the task that ended last, by which watches find `n`; each task of the list that does not
//!   exist, because a submit makes it live; and the empty id, which marks `n`.
//!
//! A task that has ended or is gone may become live again by a retry or another submit, which is rare. Then
//! each marked task gets a row of `windlass_waits` for each task of its list, and keeps these. So a claimable
//! task is found by each task that may block it again.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::{
    batch::{Batch, Sql},
    counts::Move,
};
use crate::store::rules;

/// `windlass_states.waits` of a task with a row of `windlass_waits` for each task of its list.
pub(super) const ALL: i64 = 1;
/// The same, for a task with rows of `windlass_watches`. Statements here contain the number.
pub(super) const ONE: i64 = 2;

/// The present state of a task in a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Live,
    Ended,
    Missing,
}

/// The list of a waiting task, with what is known about its tasks.
#[derive(Default)]
struct List {
    text: String,
    ids: Vec<String>,
    found: Vec<Option<Found>>,
}

/// What this transaction has read.
#[derive(Default)]
struct Looks {
    /// The last list. It is kept because many tasks wait for the same ones.
    list: List,
    found: HashMap<String, Found>,
}

/// The parts of a state that are read here.
#[derive(Deserialize)]
struct State<'s> {
    #[serde(borrow)]
    waits: Option<Waits<'s>>,
}

#[derive(Deserialize)]
struct Waits<'s> {
    #[serde(borrow)]
    tasks: &'s RawValue,
}

/// Updates the rows of long waits before the transaction is committed.
pub(in crate::store::sqlite) fn settle(batch: &mut Batch<'_>) -> Sql<()> {
    let news = std::mem::take(&mut batch.waits);
    if news.ended.is_empty() && news.waiting.is_empty() && !news.unsettles {
        return Ok(());
    }
    let any = "SELECT EXISTS (SELECT 1 FROM windlass_watches)";
    if news.waiting.is_empty() && batch.first(any, (), |row| row.get(0))? != Some(true) {
        return Ok(());
    }
    let mut waiting: BTreeSet<i64> = news.waiting.into_iter().collect();
    for n in news.ended {
        let of = "SELECT n FROM windlass_watches WHERE waited = ifnull(
            (SELECT id FROM windlass_tasks WHERE n = ?1), (SELECT id FROM windlass_gone WHERE n = ?1))";
        waiting.extend(batch.all(of, [n], |row| row.get::<_, i64>(0))?);
    }
    let mut looks = Looks::default();
    for n in waiting {
        looks.look(batch, n)?;
    }
    if news.unsettles {
        looks.spread(batch)?;
    }
    Ok(())
}

/// Gives a task a row for each of these tasks.
pub(super) fn put_all<'i>(
    batch: &Batch<'_>,
    n: i64,
    ids: impl IntoIterator<Item = &'i str>,
) -> Sql<()> {
    for id in ids {
        batch.run(
            "INSERT OR IGNORE INTO windlass_waits (waited, n) VALUES (?1, ?2)",
            (id, n),
        )?;
    }
    Ok(())
}

fn watch(batch: &Batch<'_>, n: i64, id: &str) -> Sql<usize> {
    batch.run(
        "INSERT OR IGNORE INTO windlass_watches (waited, n) VALUES (?1, ?2)",
        (id, n),
    )
}

impl Looks {
    /// Makes a waiting task watch a live task of its list, or marks it if none is live.
    fn look(&mut self, batch: &Batch<'_>, n: i64) -> Sql<()> {
        if !self.read(batch, n)? {
            return Ok(());
        }
        let len = self.list.ids.len();
        let live = rules::dependencies::watched(len, n as u64, |place| -> Sql<bool> {
            Ok(self.found(batch, place)? == Found::Live)
        })?;
        if let Some(place) = live {
            let id = &self.list.ids[place];
            batch.run(
                "DELETE FROM windlass_watches WHERE n = ?1 AND waited <> ?2",
                (n, id),
            )?;
            watch(batch, n, id)?;
            return Ok(());
        }
        for place in 0..len {
            if self.found(batch, place)? == Found::Missing {
                watch(batch, n, &self.list.ids[place])?;
            }
        }
        watch(batch, n, "")?;
        Ok(())
    }

    /// Gives each marked task a row for each task of its list.
    fn spread(&mut self, batch: &mut Batch<'_>) -> Sql<()> {
        let marked = "SELECT n FROM windlass_watches WHERE waited = ''";
        for n in batch.all(marked, (), |row| row.get::<_, i64>(0))? {
            if self.read(batch, n)? {
                batch.run("DELETE FROM windlass_watches WHERE n = ?1", [n])?;
                put_all(batch, n, self.list.ids.iter().map(String::as_str))?;
                let spread = "UPDATE windlass_states SET waits = 1 WHERE n = ?1";
                batch.write_state(spread, [n], Move::NONE)?;
            }
        }
        Ok(())
    }

    /// Reads the list of a task. Returns `false` for a task without a long wait, and for a state that cannot
    /// be read, whose task is quarantined by its next claim.
    fn read(&mut self, batch: &Batch<'_>, n: i64) -> Sql<bool> {
        let state = "SELECT state FROM windlass_states WHERE n = ?1 AND waits = 2";
        let read = batch.first(state, [n], |row| {
            let text = row.get_ref(0)?.as_str().unwrap_or_default();
            let state = serde_json::from_str::<State<'_>>(text);
            let Some(tasks) = state.ok().and_then(|state| state.waits) else {
                return Ok(false);
            };
            Ok(self.list.read(tasks.tasks.get()))
        });
        Ok(read? == Some(true))
    }

    fn found(&mut self, batch: &Batch<'_>, place: usize) -> Sql<Found> {
        if let Some(found) = self.list.found[place] {
            return Ok(found);
        }
        let id = &self.list.ids[place];
        let found = match self.found.get(id) {
            Some(found) => *found,
            None => {
                let is_live = batch.first(
                    "SELECT s.ended_at IS NULL FROM windlass_tasks t JOIN windlass_states s ON s.n = t.n WHERE t.id = ?1",
                    [id],
                    |row| row.get(0),
                )?;
                let found = match is_live {
                    None => Found::Missing,
                    Some(true) => Found::Live,
                    Some(false) => Found::Ended,
                };
                self.found.insert(id.clone(), found);
                found
            }
        };
        self.list.found[place] = Some(found);
        Ok(found)
    }
}

impl List {
    /// Replaces the list by one from a JSON text. Returns `false` if the text is invalid.
    fn read(&mut self, text: &str) -> bool {
        if self.text == text {
            return true;
        }
        let Ok(ids) = serde_json::from_str::<Vec<Cow<'_, str>>>(text) else {
            return false;
        };
        self.found = vec![None; ids.len()];
        self.ids = ids.into_iter().map(Cow::into_owned).collect();
        self.text = text.to_owned();
        true
    }
}
