//! The task for which slots of limits are kept.

use windlass_statemachine::{Limit, Terms};

use crate::store::{
    rules::limits::reserve::{Reserver, TURNS},
    sqlite::{
        batch::{Batch, Sql},
        texts::Text,
    },
};

/// The tasks that may reserve slots have their own index, whose condition contains the number.
const _: () = assert!(TURNS == 3);

/// Returns the task for which slots are kept. A transaction reads it once, and again after a
/// change.
pub(super) fn reserver(batch: &Batch<'_>) -> Sql<Option<Reserver>> {
    if let Some(known) = &*batch.reserver.borrow() {
        return Ok(known.clone());
    }
    let oldest = "SELECT n FROM windlass_held WHERE turns >= 3 ORDER BY n LIMIT 1";
    let oldest: Option<i64> = batch.first(oldest, (), |row| row.get(0))?;
    let reserver = match oldest {
        None => None,
        Some(n) => Some(Reserver {
            order: n as u64,
            limits: limits_of(batch, n)?,
        }),
    };
    *batch.reserver.borrow_mut() = Some(reserver.clone());
    Ok(reserver)
}

/// Notes that the turns of tasks in lines have changed.
pub(super) fn changed(batch: &Batch<'_>) {
    *batch.reserver.borrow_mut() = None;
}

/// Returns the limits of a task. Terms that cannot be read quarantine the task at its next claim.
pub(super) fn limits_of(batch: &Batch<'_>, n: i64) -> Sql<Vec<Limit>> {
    let terms = "SELECT terms FROM windlass_tasks WHERE n = ?1";
    let terms: Option<Text> = batch.first(terms, [n], |row| row.get(0))?.flatten();
    let terms = terms.and_then(|text| serde_json::from_str::<Terms>(&text.0).ok());
    Ok(terms.map_or_else(Vec::new, |terms| terms.limits))
}
