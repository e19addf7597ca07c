//! Asks each member of the cluster for version, leader, size and clock.

use futures::future::join_all;
use jiff::Timestamp;

use super::probe;
use crate::store::{
    Advice, Error, Remedy,
    etcd::{
        client::{Fault, Link, options::Options},
        read::Access,
    },
    examine::{Finding, Verdict},
};

/// The share of the quota that is reported as a warning.
const FULL: f64 = 0.8;
/// A member that answered.
pub(crate) struct Member {
    pub(crate) endpoint: String,
    pub(crate) id: u64,
    pub(crate) version: String,
    pub(crate) size: u64,
    pub(crate) used: u64,
    pub(crate) leader: u64,
    pub(crate) errors: Vec<String>,
    pub(crate) reported: probe::Reported,
    /// How many seconds its clock differed from that of this node when it reported.
    pub(crate) skew: Option<i64>,
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Asks the members. Clones share their state.
#[derive(Clone)]
pub(crate) struct Members {
    pub(crate) options: Options,
    access: Access,
}

impl Members {
    pub(crate) fn new(options: Options, access: Access) -> Self {
        Self { options, access }
    }

    /// Asks each member. Returns the answers with their endpoints. Errors name the `operation`.
    pub(crate) async fn ask(
        &self,
        operation: &'static str,
    ) -> Vec<(&String, Result<Member, Error>)> {
        let asked = self.options.endpoints.iter();
        let asked = asked.map(|endpoint| async move {
            let member = self.member(endpoint).await;
            (
                endpoint,
                member.map_err(|fault| fault.into_error(operation)),
            )
        });
        join_all(asked).await
    }

    async fn member(&self, endpoint: &str) -> Result<Member, Fault> {
        let options = Options {
            endpoints: vec![endpoint.to_owned()],
            ..self.options.clone()
        };
        let link = Link::connect(&options).await?;
        let mut client = link.maintenance();
        let status = link.call(client.status()).await?;
        let reported = match self.options.connector.is_network() {
            true => probe::ask(endpoint, self.options.timeout).await,
            false => probe::Reported::default(),
        };
        // Taken here, because another member may delay the examination.
        let now = self.access.now();
        let away = |clock: Timestamp| clock.duration_since(now).as_secs().abs();
        Ok(Member {
            endpoint: endpoint.to_owned(),
            id: status.header().map_or(0, |header| header.member_id()),
            version: status.version().to_owned(),
            size: u64::try_from(status.db_size()).unwrap_or(0),
            used: u64::try_from(status.raft_used_db_size()).unwrap_or(0),
            leader: status.leader(),
            errors: status.errors().to_vec(),
            skew: reported.clock.map(away),
            reported,
        })
    }
}

/// Reports the size of the member that is nearest to its quota, because quotas may differ.
pub(crate) fn size(members: &[Member], quota: Option<u64>) -> Finding {
    let share = |member: &Member| {
        let quota = quota.or(member.reported.quota)?;
        Some(member.size as f64 / quota.max(1) as f64)
    };
    let fullest = members.iter().filter(|m| share(m).is_some());
    let fullest = fullest.max_by(|a, b| {
        let (a, b) = (share(a).unwrap_or(0.0), share(b).unwrap_or(0.0));
        a.total_cmp(&b)
    });
    let Some(largest) = fullest.or_else(|| members.iter().max_by_key(|m| m.size)) else {
        return Finding::new("size", Verdict::Unknown, "no member answered", "");
    };
    let size = format!(
        "{} ({} in use) on {}",
        mib(largest.size),
        mib(largest.used),
        largest.endpoint
    );
    let Some(quota) = quota.or(largest.reported.quota) else {
        let advice = Advice::new(
            "give the members' --quota-backend-bytes to the examination",
            Remedy::GiveQuota,
        );
        let found = format!("{size}; the quota is not known");
        return Finding::new("size", Verdict::Unknown, found, advice);
    };
    let share = largest.size as f64 / quota.max(1) as f64;
    let found = format!(
        "{size}: {:.0} % of the quota of {}",
        share * 100.0,
        mib(quota)
    );
    if share < FULL {
        return Finding::ok("size", found);
    }
    let advice = "compact and defragment each member before it is full, or raise --quota-backend-bytes; then turn \
                  auto-compaction on";
    let advice = Advice::new(advice, Remedy::Compact);
    Finding::new("size", Verdict::Warning, found, advice)
}

#[cfg(test)]
pub(crate) fn member(endpoint: &str, size: u64, quota: Option<u64>) -> Member {
    Member {
        endpoint: endpoint.to_owned(),
        id: 1,
        version: "3.5.13".to_owned(),
        size,
        used: size,
        leader: 1,
        errors: Vec::new(),
        reported: probe::Reported { quota, clock: None },
        skew: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_member_that_is_nearest_to_its_quota_counts() {
        let members = [
            member("large", 500, Some(5000)),
            member("small", 90, Some(100)),
            member("silent", 900, None),
        ];
        let found = size(&members, None);
        assert_eq!(found.verdict, Verdict::Warning);
        assert!(found.found.contains("on small: 90 %"), "{found:?}");
        // A given quota applies to all members.
        let found = size(&members, Some(1000));
        assert!(found.found.contains("on silent: 90 %"), "{found:?}");
        assert_eq!(size(&members[2..], None).verdict, Verdict::Unknown);
    }
}
