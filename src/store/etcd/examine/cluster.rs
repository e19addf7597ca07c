//! The members: version, leader, alarms, size, clock; and how much history they keep.

use std::{collections::BTreeMap, time::Duration};

use etcd_client::{AlarmAction, AlarmType, WatchOptions};
use futures::future::join_all;
use jiff::Timestamp;
use tokio::time::timeout;
use tracing::warn;

use super::{
    super::{Inner, Options, errors::Fault, keys::end_of, link::Link, probe},
    OPERATION,
};
use crate::store::{
    Error,
    examine::{Examination, Finding, Verdict},
};

/// From this part of the quota on it is told.
const FULL: f64 = 0.8;
/// So many revisions that were not compacted are much.
const MUCH_HISTORY: i64 = 5_000_000;

/// A member that answered.
struct Member {
    endpoint: String,
    id: u64,
    version: String,
    size: u64,
    used: u64,
    leader: u64,
    errors: Vec<String>,
    told: probe::Told,
    /// How many seconds its clock was away from ours when it told.
    skew: Option<i64>,
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

impl Inner {
    async fn member(&self, endpoint: &str) -> Result<Member, Error> {
        let failed = |fault: Fault| fault.into_error(OPERATION);
        let options = Options {
            endpoints: vec![endpoint.to_owned()],
            ..self.options.clone()
        };
        let link = Link::connect(&options).await.map_err(failed)?;
        let mut client = link.maintenance();
        let status = link.call(client.status()).await.map_err(failed)?;
        let told = probe::ask(endpoint, self.link.timeout()).await;
        // Now: another member may keep the examination waiting.
        let now = self.now();
        let away = |clock: Timestamp| clock.duration_since(now).as_secs().abs();
        Ok(Member {
            endpoint: endpoint.to_owned(),
            id: status.header().map_or(0, |header| header.member_id()),
            version: status.version().to_owned(),
            size: u64::try_from(status.db_size()).unwrap_or(0),
            used: u64::try_from(status.raft_used_db_size()).unwrap_or(0),
            leader: status.leader(),
            errors: status.errors().to_vec(),
            skew: told.clock.map(away),
            told,
        })
    }

    pub(super) async fn examine_cluster(&self, how: &Examination) -> Vec<Finding> {
        let endpoints = &self.options.endpoints;
        let asked = join_all(endpoints.iter().map(|endpoint| self.member(endpoint))).await;
        let mut findings = Vec::new();
        let mut members = Vec::new();
        for (endpoint, answer) in endpoints.iter().zip(asked) {
            match answer {
                Ok(member) => members.push(member),
                Err(error) => findings.push(Finding::new(
                    "members",
                    Verdict::Error,
                    format!("{endpoint}: {error}"),
                    "look whether that member runs, and whether the URL of the store is right",
                )),
            }
        }
        findings.push(versions(&members));
        findings.push(leader(&members));
        findings.push(self.alarms(&members).await);
        findings.push(size(&members, how.quota));
        findings.push(clocks(&members));
        findings
    }

    /// Says in the log when the quota of a member fills, long before it is full: once, until it has
    /// room again. What a member does not tell (it speaks TLS, or we are not allowed to ask) is left
    /// to the doctor.
    pub(in super::super) async fn warn_of_quota(&self) {
        for endpoint in &self.options.endpoints {
            let Ok(member) = self.member(endpoint).await else {
                continue;
            };
            let finding = size(std::slice::from_ref(&member), None);
            let fills = match finding.verdict {
                Verdict::Warning => true,
                Verdict::Ok => false,
                // It did not tell: nothing is known.
                _ => continue,
            };
            if self.upkeep.is_news(endpoint, fills) {
                warn!(found = %finding.found, advice = finding.advice, "the quota of etcd fills");
            }
        }
    }

    async fn alarms(&self, members: &[Member]) -> Finding {
        let mut client = self.link.maintenance();
        let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None);
        let alarms = match self.link.call(alarms).await {
            Ok(alarms) => alarms,
            Err(fault) => {
                let advice = "the user may not ask for alarms; ask with etcdctl alarm list";
                return Finding::unknown("alarms", &fault.into_error(OPERATION), advice);
            }
        };
        let mut raised: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for alarm in alarms.alarms() {
            let what = match alarm.alarm() {
                AlarmType::Nospace => "NOSPACE (the quota is full: nothing can be written)",
                AlarmType::Corrupt => "CORRUPT (the members do not hold the same data)",
                AlarmType::None => "an alarm without a name",
            };
            let id = alarm.member_id();
            let member = members.iter().find(|member| member.id == id);
            let name = member.map_or_else(|| format!("member {id:x}"), |m| m.endpoint.clone());
            raised.entry(what).or_default().push(name);
        }
        if raised.is_empty() {
            return Finding::ok("alarms", "none");
        }
        let named = raised.iter();
        let named: Vec<String> = named
            .map(|(what, of)| format!("{what} of {}", of.join(", ")))
            .collect();
        let advice = "docs/operations.md: compact, defragment each member, then etcdctl alarm \
                      disarm; a corrupt member is to be replaced";
        Finding::new("alarms", Verdict::Error, named.join(", "), advice)
    }

    /// How much history is kept: what was never compacted fills the quota.
    pub(super) async fn history_kept(&self, how: &Examination) -> Finding {
        match self.try_history_kept(how).await {
            Ok(finding) => finding,
            Err(fault) => Finding::unknown("history", &fault.into_error(OPERATION), ""),
        }
    }

    async fn try_history_kept(&self, how: &Examination) -> Result<Finding, Fault> {
        let (_, now) = self.get_all(&self.keys.horizon()).await?;
        if how.compact {
            self.compact(now).await?;
            let found = format!("compacted up to revision {now}");
            return Ok(Finding {
                repaired: 1,
                ..Finding::ok("history", found)
            });
        }
        Ok(history(now - self.compacted().await?, now))
    }

    /// The revision up to which the history was compacted; 0 when it never was.
    async fn compacted(&self) -> Result<i64, Fault> {
        let mut client = self.link.watcher();
        // A key that nobody writes: only whether the watch can begin is of interest.
        let key = format!("{}meta/nothing", self.keys.root());
        let options = WatchOptions::new()
            .with_start_revision(1)
            .with_range(end_of(&key));
        let mut stream = self.link.call(client.watch(key, Some(options))).await?;
        // The first answer says that it was created; one that was compacted is canceled at once.
        for _ in 0..2 {
            let next = timeout(Duration::from_millis(500), stream.message()).await;
            match next {
                Ok(Ok(Some(message))) if message.compact_revision() > 0 => {
                    return Ok(message.compact_revision());
                }
                Ok(Ok(Some(_))) => {}
                Ok(Err(error)) => return Err(error.into()),
                Ok(Ok(None)) | Err(_) => break,
            }
        }
        Ok(0)
    }
}

/// The clocks of the servers beside ours, to a second.
fn clocks(members: &[Member]) -> Finding {
    let skew = members.iter().filter_map(|member| member.skew).max();
    let advice = "look at the clocks of the machines: wake-ups and retention follow them";
    match skew {
        None => Finding::new(
            "clock",
            Verdict::Unknown,
            "the members do not tell theirs",
            "",
        ),
        // An answer takes a while, and a second is cut off.
        Some(skew) if skew <= 3 => {
            Finding::ok("clock", format!("within {} s of the members'", skew.max(1)))
        }
        Some(skew) => {
            let found = format!("a member's is {skew} s away from ours");
            Finding::new("clock", Verdict::Warning, found, advice)
        }
    }
}

fn history(kept: i64, now: i64) -> Finding {
    let found = format!("{kept} of {now} revisions are kept");
    if kept < MUCH_HISTORY {
        return Finding::ok("history", found);
    }
    let advice = "turn compaction on (the members' --auto-compaction-mode=periodic \
                  --auto-compaction-retention=1h, or ?compact-after=1h of the store's URL), or \
                  windlass doctor --compact";
    Finding::new("history", Verdict::Warning, found, advice)
}

/// Members of these that are killed under load come back with other data than the others hold.
const LOSE_DATA: [&str; 3] = ["3.5.0", "3.5.1", "3.5.2"];

fn versions(members: &[Member]) -> Finding {
    let mut versions: Vec<&str> = members.iter().map(|m| m.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let found = format!("etcd {}", versions.join(", "));
    let warning = |found, advice| Finding::new("version", Verdict::Warning, found, advice);
    if versions.iter().any(|version| LOSE_DATA.contains(version)) {
        let advice = "a member of 3.5.0 to 3.5.2 that is killed under load can lose what it has \
                      acknowledged: update to 3.5.13 or newer, one member after the other";
        return warning(found, advice);
    }
    if versions.len() > 1 {
        return warning(
            found,
            "the members are of several versions: finish the upgrade",
        );
    }
    Finding::ok("version", found)
}

fn leader(members: &[Member]) -> Finding {
    let errors = members.iter().flat_map(|m| &m.errors);
    let errors: Vec<&str> = errors.map(String::as_str).collect();
    let mut leaders: Vec<u64> = members.iter().map(|m| m.leader).collect();
    leaders.sort_unstable();
    leaders.dedup();
    if leaders.contains(&0) || leaders.len() > 1 {
        let advice = "look at the network between the members, and whether a quorum of them runs";
        let found = format!("the members do not agree on a leader {}", errors.join("; "));
        return Finding::new("leader", Verdict::Error, found, advice);
    }
    Finding::ok("leader", format!("{} members follow one", members.len()))
}

/// Of the member that is nearest to its quota: they need not have the same one.
fn size(members: &[Member], quota: Option<u64>) -> Finding {
    let share = |member: &Member| {
        let quota = quota.or(member.told.quota)?;
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
    let Some(quota) = quota.or(largest.told.quota) else {
        let advice = "give the members' --quota-backend-bytes by --quota";
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
    let advice = "compact (windlass doctor --compact) and defragment each member before it is full, \
                  or raise --quota-backend-bytes; then turn auto-compaction on";
    Finding::new("size", Verdict::Warning, found, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(endpoint: &str, size: u64, quota: Option<u64>) -> Member {
        Member {
            endpoint: endpoint.to_owned(),
            id: 1,
            version: "3.5.13".to_owned(),
            size,
            used: size,
            leader: 1,
            errors: Vec::new(),
            told: probe::Told { quota, clock: None },
            skew: None,
        }
    }

    fn of_version(version: &str) -> Member {
        Member {
            version: version.to_owned(),
            ..member("m", 0, None)
        }
    }

    fn away_by(skew: Option<i64>) -> Member {
        Member {
            skew,
            ..member("m", 0, None)
        }
    }

    #[test]
    fn members_of_several_versions_are_an_upgrade_to_be_finished() {
        let finding = versions(&[of_version("3.5.21"), of_version("3.5.21")]);
        let expected = (Verdict::Ok, "etcd 3.5.21");
        assert_eq!((finding.verdict, &*finding.found), expected);
        let finding = versions(&[of_version("3.5.21"), of_version("3.4.23")]);
        let expected = (Verdict::Warning, "etcd 3.4.23, 3.5.21");
        assert_eq!((finding.verdict, &*finding.found), expected);
        assert!(finding.advice.contains("finish the upgrade"));
    }

    #[test]
    fn a_version_that_loses_data_is_told() {
        let finding = versions(&[of_version("3.5.1"), of_version("3.4.23")]);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.advice.contains("update to 3.5.13"), "{finding:?}");
    }

    #[test]
    fn a_member_whose_clock_is_away_is_told_with_how_far() {
        let of = |skews: &[Option<i64>]| {
            let members: Vec<_> = skews.iter().map(|skew| away_by(*skew)).collect();
            let finding = clocks(&members);
            (finding.verdict, finding.found)
        };
        let near = (Verdict::Ok, "within 2 s of the members'".to_owned());
        assert_eq!(of(&[Some(2), None]), near);
        let away = (
            Verdict::Warning,
            "a member's is 60 s away from ours".to_owned(),
        );
        assert_eq!(of(&[Some(2), Some(60)]), away);
        assert_eq!(of(&[None]).0, Verdict::Unknown);
    }

    #[test]
    fn history_that_nobody_compacts_is_much_at_some_point() {
        assert_eq!(history(MUCH_HISTORY - 1, MUCH_HISTORY).verdict, Verdict::Ok);
        let finding = history(MUCH_HISTORY, MUCH_HISTORY + 7);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(finding.found, "5000000 of 5000007 revisions are kept");
        assert!(finding.advice.contains("compact-after"));
    }

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
        // A quota that is given is that of all.
        let found = size(&members, Some(1000));
        assert!(found.found.contains("on silent: 90 %"), "{found:?}");
        assert_eq!(size(&members[2..], None).verdict, Verdict::Unknown);
    }
}
