//! The examination of a namespace and its cluster.

use std::collections::HashMap;

use etcd_client::PutOptions;
use jiff::Timestamp;
use windlass_statemachine::Fence;

use super::keys::{KeyCheck, Namespace, OPERATION};
use crate::store::{
    Advice, Error, Remedy,
    copy::Copied,
    etcd::{
        client::Fault,
        read::Access,
        schema::{
            KeyValue, RAISE, Registration, Restored,
            format::{FOREIGN_ADVICE, FOREIGN_NODES},
            json::parse,
            registrations::{self, METAFORA},
        },
        tasks::raise_fences,
        upkeep::Members,
    },
    examine::{Examination, Finding, Latency, Strays, Verdict, circle, joined_ahead},
};

const CALLS: usize = 10;
/// The number of keys on one lease above which etcd stalls when the lease ends.
const MANY_KEYS: usize = 5000;

/// Returns whether a key is still as it was read. A lease is read later than the keys on it: the key of a node that has left in
/// between is gone with its lease, and that of one that has joined again has another.
fn is_still_there(read: &KeyValue, now: Option<&KeyValue>) -> bool {
    now.is_some_and(|now| {
        (now.create_revision(), now.lease()) == (read.create_revision(), read.lease())
    })
}

/// Examines the mark of a copy; `None` without a mark.
fn copied(mark: Result<Option<Copied>, Fault>) -> Option<Finding> {
    let mark = mark.map_err(|fault| fault.into_error(OPERATION));
    Copied::finding(mark)
}

/// Examines a namespace and its cluster.
pub(crate) struct Doctor {
    pub(crate) access: Access,
    pub(crate) members: Members,
    keys: KeyCheck,
}

impl Doctor {
    pub(crate) fn new(access: Access, members: Members) -> Self {
        let reader = access.reader.clone();
        Self {
            access,
            members,
            keys: KeyCheck { reader },
        }
    }

    pub(crate) async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        let mut findings = vec![self.latency().await?];
        findings.push(self.restored(how).await?);
        findings.extend(self.examine_cluster(how).await);
        findings.push(self.history_kept(how).await);
        findings.extend(copied(self.access.reader.load_mark().await));
        let namespace = self.keys.read_namespace().await?;
        findings.push(circle::finding(&namespace.waiters));
        findings.extend(self.examine_nodes(&namespace).await?);
        findings.extend(self.keys.examine_keys(&namespace, how.repair).await?);
        Ok(findings)
    }

    /// Reports a node's note that the etcd was restored to an earlier state.
    async fn restored(&self, how: &Examination) -> Result<Finding, Error> {
        const CHECK: &str = "restored";
        if let Some(above) = how.raise_fences {
            raise_fences(&self.access.reader, Fence(above)).await?;
            return Ok(Finding {
                repaired: 1,
                ..Finding::ok(
                    CHECK,
                    "the fences are above every earlier one: nodes may start",
                )
            });
        }
        let note = self.access.keys().restored();
        let found = match self.access.reader.key(&note, OPERATION).await? {
            None => return Ok(Finding::ok(CHECK, "no node has seen a later state")),
            Some(kv) => match parse::<Restored>(&kv) {
                Ok(restored) => restored.what(),
                Err(reason) => format!("{note} cannot be read: {reason}"),
            },
        };
        let advice = Advice::new(RAISE, Remedy::RaiseFences);
        Ok(Finding::new(CHECK, Verdict::Error, found, advice))
    }

    async fn latency(&self) -> Result<Finding, Error> {
        let (mut reads, mut writes) = (Latency::default(), Latency::default());
        let key = self.access.keys().places();
        for _ in 0..CALLS {
            let horizon = self.access.keys().horizon();
            reads
                .measure(self.access.reader.key(&horizon, OPERATION))
                .await?;
            let mut client = self.access.link().kv();
            let write = async {
                let put = client.put(&*key, "", None::<PutOptions>);
                let put = self.access.link().call(put).await;
                put.map_err(|fault| fault.into_error(OPERATION))
            };
            // A full quota is its own finding, and must not hide the others.
            if let Err(error) = writes.measure(write).await {
                let advice = "nothing can be written: see the other findings";
                return Ok(Finding::new(
                    "latency",
                    Verdict::Error,
                    error.to_string(),
                    advice,
                ));
            }
        }
        Ok(Latency::finding(reads, writes))
    }

    /// Examines the nodes, their leases, and the leases of claims without a node.
    async fn examine_nodes(&self, namespace: &Namespace) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        let (mut stale, mut live) = (Strays::default(), 0);
        let mut last: Option<(Timestamp, String)> = None;
        let mut known: HashMap<i64, String> = HashMap::new();
        let mut foreign = Strays::default();
        for kv in &namespace.registrations {
            let name = self
                .access
                .reader
                .keys
                .strip(kv.key(), "nodes/")
                .unwrap_or_default();
            let name = name.trim_end_matches("/_metafora").to_owned();
            known.insert(kv.lease(), name.clone());
            let reported = parse::<Registration>(kv);
            if let Ok(reported) = &reported {
                known.extend(reported.leases.iter().map(|lease| (*lease, name.clone())));
                last = last.max(Some((reported.joined_at, name.clone())));
            }
            let reader = &self.access.reader;
            let registered = registrations::read(&reader.keys, kv);
            if registered.is_some_and(|(_, (_, node))| node.spec.version == METAFORA)
                && reader
                    .keys
                    .layout()
                    .is_some_and(|layout| !layout.is_shared())
            {
                foreign.add(name.clone());
            }
            let lasts = match kv.lease() {
                0 => false,
                lease => self.lasts(lease).await?,
            };
            if lasts {
                live += 1;
            } else if is_still_there(kv, self.read_again(kv).await?.as_ref()) {
                stale.add(name);
            }
        }
        findings.push(if stale.count == 0 {
            Finding::ok("nodes", format!("{live} live"))
        } else {
            let what = (Verdict::Error, "nodes that are registered without a lease");
            let advice = "they never expire: check whether these nodes run, and delete their \
                          keys (nodes/NAME/_metafora) if not";
            Finding::none_of("nodes", what, &stale, 0, advice)
        });
        if foreign.count > 0 {
            let what = (Verdict::Error, FOREIGN_NODES);
            let found = Finding::none_of(
                "props",
                what,
                &foreign,
                0,
                Advice::new(FOREIGN_ADVICE, Remedy::Copy),
            );
            findings.push(found);
        }
        if let Some((joined, name)) = last {
            findings.extend(joined_ahead(&name, joined, self.access.now()));
        }
        findings.extend(self.examine_leases(namespace, &known).await?);
        Ok(findings)
    }

    async fn examine_leases(
        &self,
        namespace: &Namespace,
        known: &HashMap<i64, String>,
    ) -> Result<Vec<Finding>, Error> {
        let mut without = Strays::default();
        let mut full = Strays::default();
        let mut keys: HashMap<i64, usize> = HashMap::new();
        for kv in &namespace.owners {
            *keys.entry(kv.lease()).or_default() += 1;
        }
        for (lease, count) in &keys {
            // The leases of a node end one after the other: those that have ended by now belong to no lost node.
            if *lease != 0 && !known.contains_key(lease) && self.lasts(*lease).await? {
                without.add(format!("{lease:x} ({count} claims)"));
            }
            if *count > MANY_KEYS {
                full.add(format!("{lease:x} ({count} keys)"));
            }
        }
        let most = keys.values().max().copied().unwrap_or(0);
        let advice =
            "etcd stands still while a lease with many keys ends: give the node fewer slots";
        Ok(vec![
            if full.count == 0 {
                Finding::ok("leases", format!("at most {most} claims on one"))
            } else {
                let what = (Verdict::Warning, "leases with very many keys");
                Finding::none_of("leases", what, &full, 0, advice)
            },
            Finding::none_of(
                "lost-nodes",
                (Verdict::Warning, "leases with claims and without a node"),
                &without,
                0,
                "they expire by themselves; check why the node is gone",
            ),
        ])
    }

    /// Reads a key as it is now.
    async fn read_again(&self, kv: &KeyValue) -> Result<Option<KeyValue>, Error> {
        let key = String::from_utf8_lossy(kv.key()).into_owned();
        self.access.reader.key(&key, OPERATION).await
    }

    /// Returns whether a lease has not expired.
    async fn lasts(&self, lease: i64) -> Result<bool, Error> {
        match self.access.link().lease(lease).await {
            Ok(reported) => Ok(reported.is_some_and(|reported| reported.ttl() > 0)),
            Err(fault @ (Fault::Unknown(_) | Fault::NotNow(_))) => Err(fault.into_error(OPERATION)),
            Err(_) => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_has_left_since_its_key_was_read_is_no_error() {
        let read = KeyValue {
            lease: 7,
            ..KeyValue::new("/n/nodes/w/_metafora", "{}", 9)
        };
        let changed = |change: fn(&mut KeyValue)| {
            let mut now = read.clone();
            change(&mut now);
            is_still_there(&read, Some(&now))
        };
        assert!(!is_still_there(&read, None), "it has left");
        assert!(
            !changed(|now| (now.created, now.lease) = (12, 8)),
            "it has joined again"
        );
        assert!(!changed(|now| now.lease = 8));
        assert!(changed(|now| now.written = 12), "its status was written");
        assert!(changed(|_| ()));
    }
}
