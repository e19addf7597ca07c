//! The model of etcd beside a real server: both get the same random requests, and have to answer the same.
//!
//! `SIMULATION_SEED` repeats a run; a failure prints its seed. `SIMULATION_REQUESTS` is the number of requests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod requests;

use std::{env, time::Duration};

use etcd_client::{
    Client, Error, LeaseGrantOptions, LeaseTimeToLiveOptions, PutOptions, WatchOptions,
    proto::{
        PbCompactionRequest, PbLeaseGrantRequest, PbLeaseRevokeRequest, PbLeaseTimeToLiveRequest,
        PbPutRequest, PbRangeResponse, PbTxnOpResponse, PbTxnResponse,
    },
};
use tokio::time::timeout;
use windlass_etcd_cluster::{Cluster, cluster::Setup};
use windlass_simulation::etcd::{Events, Model};

use requests::{END, Kind, PREFIX, Random, Request};

/// How many requests are sent, by default.
const REQUESTS: u64 = 3_000;
/// After how many of them a watch compares what has happened.
const WATCH_EACH: u64 = 250;
/// How long a real server may take.
const SLOW: Duration = Duration::from_secs(20);

/// The real server and the model.
struct Both {
    real: Client,
    model: Model,
    /// The last revision that was compacted.
    compacted: i64,
}

fn text<T>(answer: Result<T, Error>) -> Result<T, String> {
    answer.map_err(|error| match error {
        Error::GRpcStatus(status) => status.message().to_owned(),
        other => format!("no answer of a server: {other}"),
    })
}

/// Leaves the names of servers out of an answer.
fn plain_range(mut answer: PbRangeResponse) -> PbRangeResponse {
    if let Some(header) = &mut answer.header {
        (header.cluster_id, header.member_id, header.raft_term) = (0, 0, 0);
    }
    answer
}

fn plain(mut answer: PbTxnResponse, is_nested: bool) -> PbTxnResponse {
    match &mut answer.header {
        // Servers leave the header of a nested transaction empty or out.
        _ if is_nested => answer.header = None,
        Some(header) => (header.cluster_id, header.member_id, header.raft_term) = (0, 0, 0),
        None => {}
    }
    for each in &mut answer.responses {
        let response = each.response.take().unwrap();
        each.response = Some(match response {
            PbTxnOpResponse::ResponseTxn(nested) => {
                PbTxnOpResponse::ResponseTxn(plain(nested, true))
            }
            PbTxnOpResponse::ResponseRange(range) => {
                PbTxnOpResponse::ResponseRange(plain_range(range))
            }
            other => other,
        });
    }
    answer
}

impl Both {
    /// Sends a request to both, and compares the answers.
    async fn send(&mut self, request: &Request) {
        let (real, model) = (&mut self.real, &mut self.model);
        match &request.0 {
            Kind::Get(get) => {
                let answer = real.get(get.key.as_str(), Some(get.options())).await;
                let answer = text(answer).map(|answer| plain_range(answer.0));
                let expected = model.range(&get.pb()).map_err(|e| e.to_string());
                assert_eq!(expected, answer);
            }
            Kind::Txn(txn) => {
                let answer = text(real.txn(txn.client()).await);
                let answer = answer.map(|answer| plain(answer.0, false));
                let expected = model.txn(&txn.pb()).map_err(|e| e.to_string());
                assert_eq!(expected.map(|answer| plain(answer, false)), answer);
            }
            Kind::Put(key, value, lease) => {
                let options = PutOptions::new().with_lease(*lease);
                let answer = real.put(key.as_str(), value.as_str(), Some(options)).await;
                let answer = text(answer).map(|answer| answer.header().unwrap().revision());
                let expected = model.put(PbPutRequest {
                    key: key.clone().into(),
                    value: value.clone().into(),
                    lease: *lease,
                    ..Default::default()
                });
                let expected = expected.map_err(|e| e.to_string());
                assert_eq!(
                    expected.map(|answer| answer.header.unwrap().revision),
                    answer
                );
            }
            Kind::Compact(back) => {
                let revision = model.revision() - back;
                let answer = text(real.compact(revision, None).await).map(drop);
                let request = PbCompactionRequest {
                    revision,
                    physical: false,
                };
                let expected = model.compact(&request).map_err(|e| e.to_string());
                assert_eq!(expected, answer);
                if answer.is_ok() {
                    self.compacted = revision;
                }
            }
            Kind::Grant(id) => {
                let options = LeaseGrantOptions::new().with_id(*id);
                let answer = text(real.lease_grant(1000, Some(options)).await);
                let request = PbLeaseGrantRequest { ttl: 1000, id: *id };
                let expected = model.grant(&request).map_err(|e| e.to_string());
                assert_eq!(
                    expected.map(|granted| (granted.id, granted.ttl)),
                    answer.map(|granted| (granted.id(), granted.ttl()))
                );
            }
            Kind::Revoke(id) => {
                let answer = text(real.lease_revoke(*id).await);
                let answer = answer.map(|answer| answer.header().unwrap().revision());
                let expected = model.revoke(&PbLeaseRevokeRequest { id: *id });
                let expected = expected.map_err(|e| e.to_string());
                assert_eq!(
                    expected.map(|answer| answer.header.unwrap().revision),
                    answer
                );
            }
            Kind::Lease(id) => {
                let options = LeaseTimeToLiveOptions::new().with_keys();
                let answer = text(real.lease_time_to_live(*id, Some(options)).await).unwrap();
                let request = PbLeaseTimeToLiveRequest {
                    id: *id,
                    keys: true,
                };
                let expected = model.time_to_live(&request);
                let mut keys = answer.0.keys.clone();
                keys.sort();
                assert_eq!(
                    (expected.keys, expected.granted_ttl, expected.ttl < 0),
                    (keys, answer.granted_ttl(), answer.ttl() < 0)
                );
            }
        }
    }

    /// Compares what a watch from a revision on reports.
    async fn watch(&mut self, from: i64) {
        let options = WatchOptions::new()
            .with_range(END)
            .with_start_revision(from);
        let opened = timeout(SLOW, self.real.watch(PREFIX, Some(options)));
        let mut stream = opened.await.expect("a watch opens").unwrap();
        let mut found = Vec::new();
        let expected = self.model.events(PREFIX.as_bytes(), END.as_bytes(), from);
        let wanted = match &expected {
            Events::Changes(changes) => changes.len(),
            Events::Compacted(_) => 1,
        };
        while found.len() < wanted {
            let answer = timeout(SLOW, stream.message()).await.expect("events come");
            let answer = answer.unwrap().expect("the watch goes on");
            if answer.canceled() {
                assert_eq!(expected, Events::Compacted(answer.compact_revision()));
                return;
            }
            found.extend(answer.0.events);
        }
        assert_eq!(expected, Events::Changes(found), "from revision {from}");
    }
}

/// Returns the number that an environment variable has.
fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number, not '{text}'")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_answers_as_a_real_server() {
    let seed = number("SIMULATION_SEED").unwrap_or_else(|| fastrand::u64(..));
    let requests = number("SIMULATION_REQUESTS").unwrap_or(REQUESTS);
    println!("SIMULATION_SEED={seed}");
    let cluster = Cluster::start(Setup::of(1)).unwrap();
    let real = Client::connect([cluster.endpoint(0)], None).await.unwrap();
    let mut random = Random::new(seed);
    let mut both = Both {
        real,
        model: Model::new(),
        compacted: 0,
    };
    let mut idle = 0;
    for n in 0..requests {
        let request = random.request(both.model.revision());
        let before = both.model.revision();
        println!("{n}: {request:?}");
        timeout(SLOW, both.send(&request))
            .await
            .expect("a request ends");
        idle += u64::from(both.model.revision() == before);
        if n % WATCH_EACH == WATCH_EACH - 1 {
            for from in random.revisions(both.model.revision(), both.compacted) {
                both.watch(from).await;
            }
        }
    }
    // Many requests have to change something, or little is compared.
    assert!(idle < requests * 4 / 5, "{idle} changed nothing");
}
