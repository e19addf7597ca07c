//! The tasks of a source that cannot be read, and the tasks that wait for them.

use std::collections::HashSet;

use windlass_statemachine::{Invalid, StateKind, TaskId};

use crate::store::{Error, Filter, Page, Store, TaskRecord, rules::dependencies::waited_for};

/// How many tasks are read at once.
const AT_ONCE: u32 = 1000;

/// Checks that no task waits for one that cannot be read: a target without the second would run the first at once.
pub(super) async fn check(store: &Store) -> Result<(), Error> {
    let quarantined = Filter {
        quarantined: true,
        ..Filter::default()
    };
    let mut unreadable: HashSet<TaskId> = HashSet::new();
    let found = |record: &TaskRecord| {
        unreadable.insert(record.task.id.clone());
        None::<()>
    };
    first(store, &quarantined, found).await?;
    if unreadable.is_empty() {
        return Ok(());
    }
    let sleeping = Filter {
        states: vec![StateKind::Sleeping],
        ..Filter::default()
    };
    let awaits = |record: &TaskRecord| {
        let state = record.state.as_ref().ok()?;
        let awaited = waited_for(state).iter().find(|id| unreadable.contains(*id));
        Some((record.task.id.clone(), awaited?.clone()))
    };
    match first(store, &sleeping, awaits).await? {
        None => Ok(()),
        Some((waiter, awaited)) => {
            let reason = format!(
                "task '{waiter}' waits for '{awaited}', which cannot be read, and without it would run at once in the \
                 target; retry or delete '{awaited}' first, or accept that it is missing"
            );
            Err(Invalid::new("from", reason).into())
        }
    }
}

/// Returns the first result of the function among the tasks of the filter.
async fn first<T>(
    store: &Store,
    filter: &Filter,
    mut find: impl FnMut(&TaskRecord) -> Option<T>,
) -> Result<Option<T>, Error> {
    let mut page = Page::new(AT_ONCE);
    loop {
        let records = store.registry().list(filter, page).await?;
        if let Some(found) = records.iter().find_map(&mut find) {
            return Ok(Some(found));
        }
        match records.last() {
            Some(last) if records.len() == AT_ONCE as usize => page = page.after(last.order),
            _ => return Ok(None),
        }
    }
}
