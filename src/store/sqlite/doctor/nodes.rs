//! Examines the leases of the nodes.

use super::super::{
    SqliteStore,
    boot::LeaseClock,
    lease::{self, Standing},
};
use crate::store::{
    Error,
    examine::{Finding, Strays, Verdict},
};

impl SqliteStore {
    /// Examines the leases of the nodes.
    pub(super) async fn nodes(&self, clock: &LeaseClock) -> Result<Finding, Error> {
        let standing = async || {
            let clock = clock.clone();
            let read = move |conn: &_| Ok(lease::standing(conn, &clock)?);
            self.0.readers.run("read the leases", read).await
        };
        let rows: Vec<Standing> = standing().await?;
        Ok(stale(&rows, &standing().await?))
    }
}

/// Returns the finding about the leases that have ended. Clock and processes are looked at later than the file was read, so
/// `now` has the leases as they are after that: a node that has left in between has none.
fn stale(rows: &[Standing], now: &[Standing]) -> Finding {
    let stands = |lease: &&Standing| now.iter().any(|now| now.id == lease.id);
    let stale = rows.iter().filter(|lease| lease.is_over).filter(stands);
    let stale: Strays = stale.map(|lease| lease.node.clone()).collect();
    if stale.count == 0 {
        let live = rows.iter().filter(|lease| !lease.is_over);
        return Finding::ok("nodes", format!("{} live", live.count()));
    }
    // The next write, which this examination makes, ends these leases.
    let what = (Verdict::Warning, "nodes whose leases have ended");
    let advice = "the next write makes their tasks free; look whether they died, or run and cannot write to the store";
    Finding::none_of("nodes", what, &stale, 0, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_has_left_since_its_lease_was_read_is_not_stale() {
        let lease = |id, is_over| Standing {
            id,
            node: format!("n{id}"),
            is_over,
        };
        let rows = [lease(1, true), lease(2, true), lease(3, false)];
        let found = stale(&rows, &[lease(2, true), lease(3, false)]);
        assert_eq!(found.verdict, Verdict::Warning);
        assert!(
            found.found.contains("n2") && !found.found.contains("n1"),
            "{found:?}"
        );
        let found = stale(&rows, &[lease(3, false)]);
        assert_eq!((found.verdict, &*found.found), (Verdict::Ok, "1 live"));
    }
}
