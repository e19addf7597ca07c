//! Counts the pages in the log after each commit.
//!
//! The hook of `rusqlite` 0.39 and 0.40 is a plain function, so it leaves the number in a variable of its thread.
//! One thread writes to an open store, and it has one connection for that.

use std::{
    cell::Cell,
    ffi::c_int,
    sync::atomic::{AtomicU64, Ordering},
};

use rusqlite::{Connection, hooks::Wal};

use super::batch::Sql;

thread_local! {
    /// The number of pages after the last commit of this thread, until it is read.
    static PAGES: Cell<Option<u64>> = const { Cell::new(None) };
}

fn counted(pages: c_int) -> Sql<()> {
    PAGES.set(Some(u64::try_from(pages).unwrap_or(0)));
    Ok(())
}

/// Counts the pages after each commit of this connection. Replaces SQLite's own hook, which checkpoints in the
/// transaction that reaches the limit.
pub(super) fn count(conn: &mut Connection) -> Sql<()> {
    set(Connection::wal_hook, conn)
}

/// Returns the number of pages after the last commit of this thread, and stores it into `pages` for other threads.
pub(super) fn latest(pages: &AtomicU64) -> u64 {
    if let Some(counted) = PAGES.take() {
        pages.store(counted, Ordering::Relaxed);
    }
    pages.load(Ordering::Relaxed)
}

fn set<Since>(wal_hook: impl SetHook<Since>, conn: &mut Connection) -> Sql<()> {
    wal_hook.set(conn)
}

/// The forms that `Connection::wal_hook` has in the accepted versions of `rusqlite`. The compiler chooses the
/// implementation by the signature of that method; `Since` keeps the two apart.
trait SetHook<Since> {
    fn set(self, conn: &mut Connection) -> Sql<()>;
}

/// `rusqlite` 0.39 and 0.40.
struct Since039;

impl<T: FnOnce(&Connection, Option<fn(&Wal, c_int) -> Sql<()>>)> SetHook<Since039> for T {
    fn set(self, conn: &mut Connection) -> Sql<()> {
        self(conn, Some(|_, pages| counted(pages)));
        Ok(())
    }
}

/// `rusqlite` 0.41 and later.
struct Since041;

impl<T> SetHook<Since041> for T
where
    T: FnOnce(&mut Connection, Option<fn(&mut Wal, c_int) -> Sql<()>>) -> Sql<()>,
{
    fn set(self, conn: &mut Connection) -> Sql<()> {
        self(conn, Some(|_, pages| counted(pages)))
    }
}
