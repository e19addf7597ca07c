//! The examination of a store, of its nodes' machines and of the time zones.

use super::Client;
use crate::{
    schedule::zone_data,
    store::{
        Error, NodeRecord,
        examine::{Examination, Finding, Strays, Verdict},
    },
};

impl Client {
    /// Examines the store, and whether the machines of its live nodes can run their kinds. Returns a finding for each
    /// check.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a store that cannot be examined; [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, store::{Store, examine::{Examination, Verdict}}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("w.db").display());
    /// let client = Client::new(&Store::open(&url).await?);
    /// let findings = client.examine(&Examination::default()).await?;
    /// assert!(findings.iter().all(|finding| finding.verdict < Verdict::Error));
    /// # Ok(()) }
    /// ```
    pub async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        let mut findings = self.store.doctor()?.examine(how).await?;
        findings.push(machines(self.nodes().await));
        findings.push(Finding::ok("time zones", zone_data()));
        Ok(findings)
    }

    /// Returns why the store takes no writes, so that no task makes progress: a full disk, a file that another program keeps
    /// locked, a cluster without a quorum or with a full quota. `None` where nothing shows it: the last write of this process
    /// succeeded, or the store can say nothing without a write.
    ///
    /// Writes nothing. The answer may be 2 s old; after a failed write, a minute.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// if let Some(error) = client.write_error().await {
    ///     eprintln!("no task makes progress: {error}");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn write_error(&self) -> Option<Error> {
        self.store.registry().write_error().await
    }
}

/// Returns whether every live node can run its kinds.
fn machines(nodes: Result<Vec<NodeRecord>, Error>) -> Finding {
    let advice = "remove the cause that each fault names; the node then continues on its own, but a new limit of its process \
         (ulimit) needs a restart";
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(error) => return Finding::unknown("machines", &error, "see the check of the nodes"),
    };
    let faults = nodes.iter().flat_map(|node| {
        let name = &node.spec.name;
        node.status.faults.iter().map(move |fault| {
            format!(
                "{name} cannot run {}: {}; since {}, tries again at {}",
                fault.kind, fault.reason, fault.since, fault.next_try
            )
        })
    });
    let what = (Verdict::Warning, "faults of the machines of nodes");
    Finding::none_of("machines", what, &faults.collect::<Strays>(), 0, advice)
}
