//! The numbers of tasks that a transaction changes.

use super::{Batch, Sql};

impl Batch<'_> {
    /// Adds the moves of tasks so far to the counts.
    pub(in crate::store::sqlite) fn write_counts(&mut self) -> Sql<()> {
        let moves = std::mem::take(&mut self.moves);
        for ((failure, kind), by) in moves.failures() {
            self.run(
                "INSERT INTO windlass_failures (failure, kind, tasks) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET tasks = tasks + excluded.tasks",
                (failure, kind, by),
            )?;
            if by < 0 {
                let empty =
                    "DELETE FROM windlass_failures WHERE failure = ?1 AND kind = ?2 AND tasks <= 0";
                self.run(empty, (failure, kind))?;
            }
        }
        for (group, by) in moves.sums() {
            self.run(
                "INSERT INTO windlass_counts (kind, code, data_version, claimed, waits, quarantined, tasks)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET tasks = tasks + excluded.tasks",
                (
                    group.kind,
                    group.code,
                    group.version,
                    group.claimed,
                    group.waits,
                    group.quarantined,
                    by,
                ),
            )?;
        }
        Ok(())
    }
}
