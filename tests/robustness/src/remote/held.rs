//! [`held`]: thousands of tasks that workers hold while their server is killed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use windlass::{
    Client, NewTask,
    store::{Filter, Query, Store},
    workers::protocol::{Exchanged, Held},
};
use windlass_worker_client::http;

use crate::{BoxError, http::servers::Servers};

/// How many slots a worker has.
const SLOTS: usize = 1000;
/// The TTL of the workers.
const TTL: Duration = Duration::from_secs(45);
/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(30);

/// What it has shown.
#[derive(Debug)]
pub struct Shown {
    /// How many tasks were held.
    pub held: usize,
    /// How long it took from the kill until every worker had an exchange at the other server.
    pub taken_over: Duration,
}

struct Worker {
    name: String,
    secret: String,
    seq: u64,
    held: Vec<Held>,
}

impl Worker {
    async fn exchange(&mut self, url: &str, token: &str) -> Result<Exchanged, BoxError> {
        self.seq += 1;
        let path = format!("/v1/workers/{}/exchange", self.name);
        let body = json!({"secret": self.secret, "seq": self.seq, "settled": self.seq - 1, "held": self.held});
        let answer = post(url, token, &path, body).await?;
        Ok(serde_json::from_value(answer)?)
    }
}

async fn post(url: &str, token: &str, path: &str, body: Value) -> Result<Value, BoxError> {
    let (url, token, path) = (url.to_owned(), token.to_owned(), path.to_owned());
    let body = body.to_string();
    let sent = tokio::task::spawn_blocking(move || http::post(&url, &path, &token, &body, REQUEST));
    let answer = sent.await?.map_err(|e| e.to_string())?;
    if !(200..300).contains(&answer.status) {
        return Err(format!("{}: {}", answer.status, answer.body).into());
    }
    Ok(serde_json::from_str(&answer.body)?)
}

/// Lets workers hold this many tasks, kills their server, and sends their next exchange to another.
///
/// # Errors
///
/// When a claim, a fence or an attempt has changed, or a lease was not renewed in time.
pub async fn held(
    store: &str,
    program: PathBuf,
    folder: &Path,
    tasks: usize,
) -> Result<Shown, BoxError> {
    let opened = Store::open(store).await?;
    let client = Client::new(&opened);
    let mut servers = Servers::start(program, store.to_owned(), folder.to_owned(), 2).await?;
    let token = servers.token_of("work")?;
    let urls: Vec<String> = servers
        .addresses()
        .iter()
        .map(|at| format!("http://{at}"))
        .collect();
    let new = (0..tasks).map(|n| NewTask::new("held").id(format!("t{n}")));
    for submitted in client.submit_many(new.collect::<Vec<_>>()).await {
        submitted?;
    }
    let mut workers = Vec::new();
    for n in 0..tasks.div_ceil(SLOTS) {
        let (name, secret) = (format!("w{n}"), format!("the secret of worker {n}"));
        let body = json!({"name": name, "secret": secret, "ttl_ms": TTL.as_millis() as u64,
            "kinds": {"held": {"slots": SLOTS}}});
        post(&urls[0], &token, "/v1/workers", body).await?;
        workers.push(Worker {
            name,
            secret,
            seq: 0,
            held: Vec::new(),
        });
    }
    let begun = Instant::now();
    while workers
        .iter()
        .map(|worker| worker.held.len())
        .sum::<usize>()
        < tasks
    {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err("the tasks were not claimed within a minute".into());
        }
        for worker in &mut workers {
            let answer = worker.exchange(&urls[0], &token).await?;
            let held = answer
                .claims
                .into_iter()
                .map(|start| Held::new(start.id, start.fence, start.run));
            worker.held.extend(held);
        }
    }
    let before = states(&client).await?;
    servers.stop(0)?;
    let killed = Instant::now();
    for worker in &mut workers {
        let answer = worker.exchange(&urls[1], &token).await?;
        if !(answer.claims.is_empty() && answer.lost.is_empty() && answer.stop.is_empty()) {
            return Err(format!("the other server says of {}: {answer:?}", worker.name).into());
        }
    }
    let taken_over = killed.elapsed();
    // One exchange more, which acknowledges the renewal of the first.
    for worker in &mut workers {
        let until = Instant::now() + Duration::from_secs(10);
        while worker.exchange(&urls[1], &token).await?.renewed_seq == 0 {
            if Instant::now() > until {
                return Err(format!("the lease of {} is not renewed", worker.name).into());
            }
        }
    }
    if killed.elapsed() > TTL.mul_f64(0.8) {
        return Err(format!("it took {:?} to renew every lease", killed.elapsed()).into());
    }
    let after = states(&client).await?;
    let changed = before
        .iter()
        .filter(|(id, state)| after.get(*id) != Some(*state));
    match changed.count() {
        0 => Ok(Shown {
            held: before.len(),
            taken_over,
        }),
        changed => Err(format!(
            "{changed} of {} tasks have another fence or attempt",
            before.len()
        )
        .into()),
    }
}

/// Returns fence, claims and attempts of every task that has a claim.
async fn states(client: &Client) -> Result<BTreeMap<String, (u64, u64, u32)>, BoxError> {
    let (mut all, mut cursor) = (BTreeMap::new(), None);
    loop {
        let query = Query::new(Filter::default()).limit(1000);
        let page = client.page(&query, cursor.as_ref()).await?;
        for record in page.tasks {
            let state = record.state?;
            if record.node.is_some() {
                let facts = (state.fence.0, state.claims, state.attempts);
                all.insert(record.task.id.to_string(), facts);
            }
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}
