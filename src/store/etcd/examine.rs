//! The examination of a namespace, and of the cluster that it is on.

mod cluster;
mod keys;

use std::collections::HashMap;

use etcd_client::{LeaseTimeToLiveOptions, PutOptions};
use keys::Namespace;
use tokio::time::timeout;

use super::{Inner, records, records::Registration};
use crate::store::{
    Error,
    examine::{Examination, Finding, Latency, Strays, Verdict},
};

const OPERATION: &str = "examine the store";
const CALLS: usize = 10;
/// More keys than this on one lease, and etcd stands still when it ends.
const MANY_KEYS: usize = 5000;

impl Inner {
    pub(super) async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        let mut findings = vec![self.latency().await?];
        findings.extend(self.examine_cluster(how).await);
        findings.push(self.history_kept(how).await);
        let namespace = self.read_namespace().await?;
        findings.extend(self.examine_nodes(&namespace).await?);
        findings.extend(self.examine_keys(&namespace, how.repair).await?);
        Ok(findings)
    }

    async fn latency(&self) -> Result<Finding, Error> {
        let (mut reads, mut writes) = (Latency::default(), Latency::default());
        let key = self.keys.places();
        for _ in 0..CALLS {
            let horizon = self.keys.horizon();
            let read = async {
                let read = self.get_key(&horizon).await;
                read.map_err(|fault| fault.into_error(OPERATION))
            };
            reads.measure(read).await?;
            let mut client = self.link.kv();
            let write = async {
                let put = client.put(&*key, "", None::<PutOptions>);
                let put = self.link.call(put).await;
                put.map_err(|fault| fault.into_error(OPERATION))
            };
            // A full quota is told by name, and must not hide the rest.
            if let Err(error) = writes.measure(write).await {
                let advice = "nothing can be written: see what else is told here";
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

    /// The nodes, their leases, and the leases of claims that belong to no node.
    async fn examine_nodes(&self, namespace: &Namespace) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        let (mut stale, mut live, mut ahead) = (Strays::default(), 0, 0);
        let mut known: HashMap<i64, String> = HashMap::new();
        for kv in &namespace.registrations {
            let name = self.keys.strip(kv.key(), "nodes/").unwrap_or_default();
            let name = name.trim_end_matches("/_metafora").to_owned();
            known.insert(kv.lease(), name.clone());
            let told = records::parse::<Registration>(kv);
            if let Ok(told) = &told {
                known.extend(told.leases.iter().map(|lease| (*lease, name.clone())));
                let skew = told.joined_at.duration_since(self.now()).as_secs();
                ahead = ahead.max(skew);
            }
            let lasts = match kv.lease() {
                0 => false,
                lease => self.lease_keys(lease).await?.is_some(),
            };
            if lasts {
                live += 1;
            } else {
                stale.add(name);
            }
        }
        findings.push(if stale.count == 0 {
            Finding::ok("nodes", format!("{live} live"))
        } else {
            let what = (Verdict::Error, "nodes that are registered without a lease");
            let advice = "nobody renews them and nothing ends them: look whether they run, and \
                          delete their keys (nodes/NAME/_metafora) if not";
            Finding::none_of("nodes", what, &stale, 0, advice)
        });
        if ahead >= 2 {
            let found = format!("a node joined {ahead} s in the future of this clock");
            let advice = "look at the clocks of the machines: wake-ups follow them";
            findings.push(Finding::new("clock", Verdict::Warning, found, advice));
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
            if *lease != 0 && !known.contains_key(lease) {
                without.add(format!("{lease:x} ({count} claims)"));
            }
            if *count > MANY_KEYS {
                full.add(format!("{lease:x} ({count} keys)"));
            }
        }
        let most = keys.values().max().copied().unwrap_or(0);
        let advice = "etcd stands still while a lease with many keys ends: let the node claim less";
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
                "they end by themselves when their time is over; look why the node is gone",
            ),
        ])
    }

    /// The keys of a lease; `None` when it is over.
    async fn lease_keys(&self, lease: i64) -> Result<Option<usize>, Error> {
        let mut client = self.link.leases();
        let options = LeaseTimeToLiveOptions::new().with_keys();
        let told = client.time_to_live(lease, Some(options));
        match timeout(self.link.timeout(), told).await {
            Ok(Ok(told)) if told.ttl() > 0 => Ok(Some(told.keys().len())),
            Ok(_) => Ok(None),
            Err(late) => Err(Error::unavailable(OPERATION, late)),
        }
    }
}
