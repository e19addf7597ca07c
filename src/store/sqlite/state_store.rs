//! [`SqliteStates`]: a state store in a SQLite file, for another coordinator.

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use rusqlite::Connection;
use windlass_statemachine::{TaskId, TaskState};

use super::{
    Options, all_failed,
    batch::{Batch, Sql, first},
    blocking,
    boot::LeaseClock,
    columns,
    errors::{Stop, item},
    open,
    readers::Readers,
    settings::Settings,
    wal::Wal,
    writer::{Setup, Writer},
};
use crate::{
    clock::SystemClock,
    store::{Error, Limits, StateRemoval, StateStore, StateWrite, rules},
};

/// A [`StateStore`] in a table of a SQLite file: its own file, or that of a
/// [`SqliteStore`](super::SqliteStore).
#[derive(Clone)]
pub struct SqliteStates(Arc<Inner>);

struct Inner {
    path: Arc<Path>,
    limits: Limits,
    readers: Arc<Readers>,
    writer: Writer,
}

impl fmt::Debug for SqliteStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteStates").field(&self.0.path).finish()
    }
}

impl SqliteStates {
    /// Opens the file, and creates it if it does not exist (its folder must exist).
    ///
    /// # Errors
    ///
    /// The errors of [`SqliteStore::open`](super::SqliteStore::open).
    pub async fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let path = path.as_ref().to_owned();
        blocking(move || {
            let (files, mut conn) = open::writer(&path, &options)?;
            let writer = Writer::start(Setup {
                wal: Wal::new(&mut conn, &files, Settings::of(&options))?,
                conn,
                files: files.clone(),
                clock: SystemClock::shared(),
                lease_clock: LeaseClock::new(None),
                limits: options.limits,
                busy_timeout: options.busy_timeout,
                notifier: None,
            })?;
            Ok(Self(Arc::new(Inner {
                readers: Arc::new(Readers::new(files.clone(), Settings::of(&options))),
                path: files.path().clone(),
                limits: options.limits,
                writer,
            })))
        })
        .await
    }
}

#[async_trait]
impl StateStore for SqliteStates {
    async fn load(&self, tasks: &[TaskId]) -> Vec<Result<Option<TaskState>, Error>> {
        let (ids, count) = (tasks.to_vec(), tasks.len());
        let loaded = self.0.readers.run("load states", move |conn| {
            Ok(ids.iter().map(|id| load(conn, id)).collect::<Sql<_>>()?)
        });
        loaded.await.unwrap_or_else(|e| all_failed(count, &e))
    }

    async fn store(&self, writes: Vec<StateWrite>) -> Vec<Result<(), Error>> {
        let (limit, count) = (self.0.limits.max_bytes, writes.len());
        let writes: Vec<_> = writes
            .into_iter()
            .map(|write| {
                let text = text(&write.state, limit);
                (write, text)
            })
            .collect();
        let stored = self.0.writer.run("store states", count, move |batch| {
            let store = |(write, text): &(StateWrite, Result<String, Error>)| {
                item(match text {
                    Ok(text) => store(batch, write, text),
                    Err(error) => Err(error.clone().into()),
                })
            };
            writes.iter().map(store).collect()
        });
        stored.await.unwrap_or_else(|e| all_failed(count, &e))
    }

    async fn remove(&self, removals: Vec<StateRemoval>) -> Vec<Result<(), Error>> {
        let count = removals.len();
        let removed = self.0.writer.run("remove states", count, move |batch| {
            let remove = |removal: &StateRemoval| item(remove(batch, removal));
            removals.iter().map(remove).collect()
        });
        removed.await.unwrap_or_else(|e| all_failed(count, &e))
    }
}

fn text(state: &TaskState, limit: usize) -> Result<String, Error> {
    rules::size::check_state(state, limit)?;
    super::json("state", state)
}

fn load(conn: &Connection, id: &TaskId) -> Sql<Result<Option<TaskState>, Error>> {
    let mut load =
        conn.prepare_cached("SELECT state FROM windlass_states_alone WHERE task = ?1")?;
    let state = first(&mut load, [id.as_str()], |row| columns::state(row, 0))?;
    Ok(state
        .transpose()
        .map_err(|reason| Error::corrupt_state(id, reason)))
}

/// Removes a state if the stored one is the one that was seen.
fn remove(batch: &Batch<'_>, removal: &StateRemoval) -> Result<(), Stop> {
    let stored = load(batch.connection(), &removal.task)?;
    if removal.check(&stored).map_err(Stop::Refused)? {
        let id = removal.task.as_str();
        batch.run("DELETE FROM windlass_states_alone WHERE task = ?1", [id])?;
    }
    Ok(())
}

/// Stores a state unless a newer one is stored.
fn store(batch: &Batch<'_>, write: &StateWrite, text: &str) -> Result<(), Stop> {
    let (id, state) = (write.task.as_str(), &write.state);
    // The incarnation is not compared: a late write of a replaced task may have a greater one.
    let new = (state.fence.0 as i64, state.version as i64);
    let stored = batch.first(
        "SELECT fence, version FROM windlass_states_alone WHERE task = ?1",
        [id],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    if stored.is_some_and(|stored| stored > new) {
        return Err(Stop::Refused(Error::fenced(&write.task)));
    }
    batch.run(
        "INSERT OR REPLACE INTO windlass_states_alone (task, incarnation, fence, version, state)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        (id, i64::from(state.incarnation), new.0, new.1, text),
    )?;
    Ok(())
}
