//! Examines the members: version, leader, alarms, size, clock, and how much history they keep.

use std::{collections::BTreeMap, time::Duration};

use etcd_client::{AlarmAction, AlarmType, WatchOptions};
use tokio::time::{sleep, timeout};

use super::{examine::Doctor, keys::OPERATION};
use crate::store::{
    Advice, Remedy,
    etcd::{
        client::Fault,
        schema::end_of,
        upkeep::{Member, size},
    },
    examine::{Examination, Finding, Verdict},
};

/// The number of revisions that is reported as a warning.
const MUCH_HISTORY: i64 = 5_000_000;
/// How often members that do not agree on a leader are asked again, and the pause before it.
const ELECTIONS: u32 = 2;
const ELECTION: Duration = Duration::from_secs(1);

impl Doctor {
    pub(crate) async fn examine_cluster(&self, how: &Examination) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut members = Vec::new();
        let mut answers = self.members.ask(OPERATION).await;
        for _ in 0..ELECTIONS {
            let leaders = answers
                .iter()
                .filter_map(|(_, answer)| Some(answer.as_ref().ok()?.leader));
            if is_agreed(leaders) {
                break;
            }
            // Each answers at its own moment: during an election they name several leaders, or none.
            sleep(ELECTION).await;
            answers = self.members.ask(OPERATION).await;
        }
        for (endpoint, answer) in answers {
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

    async fn alarms(&self, members: &[Member]) -> Finding {
        let mut client = self.access.link().maintenance();
        let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None);
        let alarms = match self.access.link().call(alarms).await {
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
        let advice = "docs/operate/operations-etcd.md: compact, defragment each member, then etcdctl alarm \
                      disarm; a corrupt member is to be replaced";
        Finding::new("alarms", Verdict::Error, named.join(", "), advice)
    }

    /// Reports how much history is kept: history that is never compacted eventually fills the
    /// quota.
    pub(crate) async fn history_kept(&self, how: &Examination) -> Finding {
        match self.try_history_kept(how).await {
            Ok(finding) => finding,
            Err(fault) => Finding::unknown("history", &fault.into_error(OPERATION), ""),
        }
    }

    async fn try_history_kept(&self, how: &Examination) -> Result<Finding, Fault> {
        let (_, now) = self
            .access
            .link()
            .get_all(&self.access.keys().horizon())
            .await?;
        if how.compact {
            self.access.link().compact(now).await?;
            let found = format!("compacted up to revision {now}");
            return Ok(Finding {
                repaired: 1,
                ..Finding::ok("history", found)
            });
        }
        // Read later: another program may have compacted in between.
        let compacted = self.compacted().await?;
        Ok(history((now - compacted).max(0), now))
    }

    /// Reads the revision that the history was compacted to; 0 when it never was.
    async fn compacted(&self) -> Result<i64, Fault> {
        let mut client = self.access.link().watcher();
        // No program writes this key: the watch only shows whether it can start.
        let key = format!("{}meta/nothing", self.access.keys().root());
        let options = WatchOptions::new()
            .with_start_revision(1)
            .with_range(end_of(&key));
        let mut stream = self
            .access
            .link()
            .call(client.watch(key, Some(options)))
            .await?;
        // The first answer confirms the watch. A watch below the compacted revision is canceled at
        // once.
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

/// Compares the clocks of the members with that of this machine, to a second.
fn clocks(members: &[Member]) -> Finding {
    let skew = members.iter().filter_map(|member| member.skew).max();
    let advice = "check the clocks of the machines: wake-ups and retention follow them";
    match skew {
        None => Finding::new(
            "clock",
            Verdict::Unknown,
            "the members do not report theirs",
            "",
        ),
        // An answer takes time, and fractions of a second are cut off.
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
                  --auto-compaction-retention=1h, or ?compact-after=1h of the store's URL), or compact \
                  once";
    let advice = Advice::new(advice, Remedy::Compact);
    Finding::new("history", Verdict::Warning, found, advice)
}

/// Members of these versions that are killed under load may restart with other data than the rest.
const LOSE_DATA: [&str; 3] = ["3.5.0", "3.5.1", "3.5.2"];

/// Members of these versions, and of those that lose data, panic when a client goes away while a transaction of reads is
/// under way (etcd issue 14110).
const PANIC: [&str; 2] = ["3.5.3", "3.5.4"];

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
    if versions.iter().any(|version| PANIC.contains(version)) {
        let advice = "a member of 3.5.0 to 3.5.4 can panic when a client is stopped or cut off: update to 3.5.13 or \
                      newer, one member after the other";
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

/// Returns whether the members name one leader. No member names none.
fn is_agreed(leaders: impl Iterator<Item = u64>) -> bool {
    let mut leaders: Vec<u64> = leaders.collect();
    leaders.sort_unstable();
    leaders.dedup();
    !leaders.contains(&0) && leaders.len() <= 1
}

fn leader(members: &[Member]) -> Finding {
    let errors = members.iter().flat_map(|m| &m.errors);
    let errors: Vec<&str> = errors.map(String::as_str).collect();
    if !is_agreed(members.iter().map(|member| member.leader)) {
        let advice = "check the network between the members, and whether a quorum of them runs";
        let found = format!("the members do not agree on a leader {}", errors.join("; "));
        return Finding::new("leader", Verdict::Error, found, advice);
    }
    let all = members.len();
    Finding::ok(
        "leader",
        format!("{all} of {all} members follow the leader"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::etcd::upkeep::member;

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
    fn members_agree_when_all_name_one_leader() {
        for (leaders, agreed) in [
            (&[7, 7, 7][..], true),
            (&[7, 8], false),
            (&[7, 0], false),
            (&[], true),
        ] {
            assert_eq!(is_agreed(leaders.iter().copied()), agreed, "{leaders:?}");
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
    fn a_version_that_loses_data_is_reported() {
        let finding = versions(&[of_version("3.5.1"), of_version("3.4.23")]);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.advice.contains("update to 3.5.13"), "{finding:?}");
    }

    #[test]
    fn a_version_that_panics_when_a_client_goes_away_is_reported() {
        for version in PANIC {
            let finding = versions(&[of_version(version)]);
            assert_eq!(finding.verdict, Verdict::Warning);
            assert!(
                finding.advice.contains("when a client is stopped"),
                "{finding:?}"
            );
        }
    }

    #[test]
    fn a_member_whose_clock_differs_is_reported_with_the_difference() {
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
    fn history_that_is_never_compacted_becomes_a_warning() {
        assert_eq!(history(MUCH_HISTORY - 1, MUCH_HISTORY).verdict, Verdict::Ok);
        let finding = history(MUCH_HISTORY, MUCH_HISTORY + 7);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(finding.found, "5000000 of 5000007 revisions are kept");
        assert!(finding.advice.contains("compact-after"));
    }
}
